// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/abstract_socket.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

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

bool send_message(int socket, const void* bytes, size_t count, std::span<const int> descriptors) {
  iovec piece{const_cast<void*>(bytes), count};
  alignas(cmsghdr) char control[CMSG_SPACE(kPassedMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(count);
}

ssize_t receive_message(int socket, void* bytes, size_t room, Descriptor (&descriptors)[kPassedMax],
                        size_t* count) {
  iovec piece{bytes, room};
  alignas(cmsghdr) char control[CMSG_SPACE(kPassedMax * sizeof(int))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  *count = 0;
  const ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) return n;
  // Every one is taken out, so that none is leaked.
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < here; i++) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
      Descriptor taken(fd);
      if (*count < kPassedMax) descriptors[(*count)++] = std::move(taken);
    }
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) return n;
  errno = EBADMSG;
  return -1;
}

}  // namespace torii
