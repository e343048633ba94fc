// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/shm/handover.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "core/base/abstract_socket.h"
#include "core/base/log.h"

namespace torii::shm {
namespace {

constexpr int kAnswersMax = 64;  // in one answer()
constexpr int kGivenMax = 2;     // descriptors in an answer

AbstractAddress address_of(uint32_t pid, uint32_t token) {
  return AbstractAddress(format_text("torii-shm-%u-%08x", pid, token));
}

Descriptor make_socket() {
  return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// One message: the magic number with the descriptors. The buffer of a new connection has room.
void give(const Descriptor& to, const int* descriptors, size_t count) {
  uint32_t magic = kMagic;
  iovec bytes{&magic, sizeof(magic)};
  alignas(cmsghdr) char control[CMSG_SPACE(kGivenMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(rights), descriptors, count * sizeof(int));
  if (sendmsg(to.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    TORII_DEBUG("shm: handing a segment over failed: %m; it will be asked for again");
}

// Takes every descriptor out of a message, so that none is leaked.
size_t take_descriptors(msghdr* message, Descriptor (&out)[kGivenMax]) {
  size_t count = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < here; i++) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
      Descriptor taken(fd);
      if (count < kGivenMax) out[count++] = std::move(taken);
    }
  }
  return count;
}

}  // namespace

bool Giver::listen(uint32_t pid) {
  uint32_t token = 0;
  if (getrandom(&token, sizeof(token), 0) != sizeof(token) || !token) return false;
  const AbstractAddress at = address_of(pid, token);
  socket_ = make_socket();
  if (!socket_ || bind(socket_.get(), at.get(), at.bytes()) != 0 ||
      ::listen(socket_.get(), SOMAXCONN) != 0) {
    TORII_INFO("shm: no socket for peers that cannot open this process in /proc: %m");
    socket_.reset();
    return false;
  }
  token_ = token;
  return true;
}

void Giver::answer(int segment, int pipe) {
  const int descriptors[kGivenMax] = {segment, pipe};
  for (int n = 0; n < kAnswersMax; n++) {
    const Descriptor asker(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!asker) {
      if (errno == EAGAIN || complained_) return;
      complained_ = true;
      TORII_WARN(
          "shm: peers that ask for the segment cannot be answered: %m; raise the limit of "
          "open files (ulimit -n)");
      return;
    }
    if (same_user(asker.get())) give(asker, descriptors, pipe < 0 ? 1 : kGivenMax);
  }
}

void Giver::stop() {
  if (socket_) shutdown(socket_.get(), SHUT_RDWR);
}

Status ask(const Address& address, Descriptor* request, std::string* why) {
  const AbstractAddress at = address_of(address.pid, address.socket);
  Descriptor socket = make_socket();
  if (!socket || connect(socket.get(), at.get(), at.bytes()) != 0) {
    if (errno == EAGAIN || is_shortage(errno)) return Status::again;
    *why = format_text(
        "shm: process %u may not be opened through /proc, and its socket @%s cannot be reached: "
        "%s; run both in one network namespace, or let the process be dumpable",
        address.pid, at.name(), strerror(errno));
    return Status::unreachable;
  }
  ucred who{};
  if (!other_end(socket.get(), &who) || static_cast<uint32_t>(who.pid) != address.pid) {
    *why = format_text(
        "shm: the socket @%s is not of process %u, which has ended; start the job "
        "anew",
        at.name(), address.pid);
    return Status::unreachable;
  }
  if (who.uid != geteuid()) {
    *why = format_text("shm: process %u runs as user %u, this one as %u; run both as one user",
                       address.pid, who.uid, geteuid());
    return Status::unreachable;
  }
  *request = std::move(socket);
  return Status::ok;
}

Status receive(const Descriptor& request, Given* out) {
  uint32_t magic = 0;
  iovec bytes{&magic, sizeof(magic)};
  alignas(cmsghdr) char control[CMSG_SPACE(kGivenMax * sizeof(int))];
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t n = recvmsg(request.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) return errno == EAGAIN || errno == EINTR ? Status::again : Status::io_error;
  Descriptor given[kGivenMax];
  const size_t count = take_descriptors(&message, given);
  if (n != sizeof(magic) || magic != kMagic || count == 0 ||
      (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
    return Status::io_error;
  out->segment = std::move(given[0]);
  if (count > 1) out->pipe = open_pipe(format_text("/proc/self/fd/%d", given[1].get()));
  return Status::ok;
}

}  // namespace torii::shm
