// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/abstract_socket.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace torii {

AbstractAddress::AbstractAddress(const std::string& name) {
  address_.sun_family = AF_UNIX;
  // The zero in front makes it abstract; one behind lets name() end.
  const size_t length = std::min(name.size(), sizeof(address_.sun_path) - 2);
  std::memcpy(address_.sun_path + 1, name.data(), length);
  bytes_ = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool other_end(int socket, ucred* out) {
  socklen_t bytes = sizeof(*out);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, out, &bytes) == 0;
}

bool same_user(int socket) {
  ucred who{};
  return other_end(socket, &who) && who.uid == geteuid();
}

}  // namespace torii
