// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Unix sockets with abstract names, and who is at their other end.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

namespace torii {

// The name is no file, and ends with the socket. One that is too long is cut.
class AbstractAddress {
 public:
  explicit AbstractAddress(const std::string& name);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t bytes() const { return bytes_; }
  const char* name() const { return address_.sun_path + 1; }

 private:
  sockaddr_un address_{};
  socklen_t bytes_;
};

// The process at the other end as the kernel knows it: of a listener, the one that called listen().
// False: it does not say.
bool other_end(int socket, ucred* out);

// The process at the other end belongs to this one's user.
bool same_user(int socket);

}  // namespace torii
