// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Unix sockets with abstract names, who is at their other end, and descriptors that go through
// them.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <span>
#include <string>

#include "core/base/descriptor.h"

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

inline constexpr size_t kPassedMax = 5;  // descriptors in one message

// Sends one message, with descriptors, through a socket that keeps messages apart. Does not wait.
// False, with errno: it was not sent.
bool send_message(int socket, const void* bytes, size_t count, std::span<const int> descriptors);
// Receives one. Does not wait. -1, with errno; 0: the other end is closed; else its length.
// `EBADMSG`: it was longer than `room`, or had more descriptors than fit. The first *count of the
// descriptors that came are in `descriptors`.
ssize_t receive_message(int socket, void* bytes, size_t room, Descriptor (&descriptors)[kPassedMax],
                        size_t* count);

}  // namespace torii
