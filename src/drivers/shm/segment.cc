// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "core/base/abstract_socket.h"
#include "core/base/emulated.h"
#include "core/base/fnv.h"
#include "core/base/log.h"
#include "core/base/small_file.h"

namespace torii::shm {
namespace {

// The start time of a process in clock ticks since boot; 0: it has ended, and its parent has not
// asked yet. False, with errno: /proc does not tell.
bool read_start_time(uint32_t pid, uint64_t* out) {
  std::string text;
  if (!read_beginning(format_text("/proc/%u/stat", pid), 1024, &text) || text.empty()) return false;
  // The name of the program, in parentheses, may contain anything: count fields behind it.
  const char* at = strrchr(text.c_str(), ')');
  const bool ended = at && (at[2] == 'Z' || at[2] == 'X');
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  *out = at && !ended ? strtoull(at, nullptr, 10) : 0;
  return true;
}

Descriptor open_sparing(const std::string& path, int flags, SpareDescriptor* spare) {
  return spare ? spare->open(path.c_str(), flags) : Descriptor(open(path.c_str(), flags));
}

// Fills in what tells this process from every other one on every host.
bool identify(Address* out, std::string* why) {
  char text[64];
  std::string boot;
  if (!read_beginning("/proc/sys/kernel/random/boot_id", sizeof(text), &boot) || boot.empty())
    return refuse(why, false, "shm: /proc/sys/kernel/random/boot_id cannot be read; mount /proc");
  out->boot = fnv1a(boot);
  struct stat space;
  if (stat("/proc/self/ns/pid", &space) != 0)
    return refuse(why, false, "shm: stat of /proc/self/ns/pid failed: %s; mount /proc",
                  strerror(errno));
  out->pid_space = space.st_ino;
  out->pid = static_cast<uint32_t>(getpid());
  const ssize_t length = readlink("/proc/self", text, sizeof(text) - 1);
  text[length < 0 ? 0 : length] = '\0';
  if (strtoul(text, nullptr, 10) != out->pid)
    return refuse(why, false,
                  "shm: /proc shows this process as \"%s\" but it is %u: it belongs to another PID "
                  "namespace; mount a /proc of this one",
                  text, out->pid);
  if (!read_start_time(out->pid, &out->start_time))
    return refuse(why, false,
                  "shm: /proc/%u/stat cannot be read: %s; mount /proc, or raise ulimit -n",
                  out->pid, strerror(errno));
  if (getrandom(&out->cookie, sizeof(out->cookie), 0) != sizeof(out->cookie))
    return refuse(why, false, "shm: getrandom failed: %s; allow it in the seccomp profile",
                  strerror(errno));
  return true;
}

// A process in another place must never be taken for one here that has the same pid.
bool same_place(const Address& there, const Address& here, std::string* why) {
  if (there.boot != here.boot)
    return refuse(why, false,
                  "shm: the process runs on another host, or on another emulated node; a network "
                  "driver is needed to reach it");
  if (there.pid_space != here.pid_space)
    return refuse(why, false,
                  "shm: process %u is in PID namespace %llu, this one in %llu (containers?); start "
                  "both in one PID namespace or use a network driver",
                  there.pid, static_cast<unsigned long long>(there.pid_space),
                  static_cast<unsigned long long>(here.pid_space));
  return true;
}

constexpr int kAnswersMax = 64;  // in one answer()

AbstractAddress address_of(uint32_t pid, uint32_t token) {
  return AbstractAddress(format_text("torii-shm-%u-%08x", pid, token));
}

Descriptor make_socket() {
  return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

}  // namespace

bool Segment::map_ring(uint32_t number, Mapping* out) const {
  return out->map(fd.get(), rings_offset(claims) + number * ring_bytes, ring_bytes);
}

uint32_t claims_for(uint32_t local_peers) {
  // Twice the peers: processes that end are replaced by others before all have noticed.
  if (local_peers > kClaimsMax / 2) return kClaimsMax;
  return local_peers * 2 < 1024 ? 1024 : local_peers * 2;
}

bool create_segment(uint32_t claims, uint64_t ring_bytes, uint32_t socket, uint32_t emulated_node,
                    Segment* out, std::string* why) {
  if (!identify(&out->address, why)) return false;
  if (emulated_node != kNoEmulatedNode) out->address.boot += 1 + emulated_node;
  const uint64_t bytes = segment_bytes(claims, ring_bytes);
  out->fd = make_sealed(bytes);
  if (!out->fd || !out->front.map(out->fd.get(), 0, rings_offset(claims)))
    return refuse(
        why, false,
        "shm: a segment of %llu bytes failed: %s; lower TORII_SHM_RING, raise the limit "
        "on file size (ulimit -f unlimited), or allow memfd_create and fcntl with F_ADD_SEALS in "
        "the seccomp profile (Linux 3.17)",
        static_cast<unsigned long long>(bytes), strerror(errno));
  out->claims = claims;
  out->ring_bytes = ring_bytes;
  out->self_address = reinterpret_cast<uintptr_t>(out->front.base());
  out->address.magic = kMagic;
  out->address.fd = static_cast<uint32_t>(out->fd.get());
  out->address.socket = socket;
  auto* header = new (out->front.base()) Header{};
  header->claims = claims;
  header->bytes = bytes;
  header->ring_bytes = ring_bytes;
  header->self_address = out->self_address;
  header->wake_fd.store(-1, relaxed);
  header->life.store(static_cast<uint32_t>(Life::open), relaxed);
  std::atomic_thread_fence(release);
  header->address = out->address;
  return true;
}

Status open_segment(const Address& address, const Address& self, Segment* out, std::string* why,
                    SpareDescriptor* spare) {
  if (address.magic != kMagic)
    return refuse(why, Status::unreachable,
                  "shm: the address has version %08x, this library speaks %08x; use the same Torii "
                  "in all processes",
                  address.magic, kMagic);
  if (!same_place(address, self, why)) return Status::unreachable;
  const std::string path = format_text("/proc/%u/fd/%u", address.pid, address.fd);
  Descriptor fd = open_sparing(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, spare);
  if (!fd) {
    const int error = errno;
    if (const Status gone = say_gone(address, error == ENOENT, why); gone != Status::ok)
      return gone;
    const char* remedy = error == ENOENT   ? "its /proc is hidden"
                         : error == EACCES ? "run both as one user, and let the process be dumpable"
                         : error == EMFILE ? "raise the limit of open files (ulimit -n)"
                                           : "mount /proc of this PID namespace";
    const Status status = error == EACCES      ? Status::denied
                          : is_shortage(error) ? Status::again
                                               : Status::unreachable;
    return refuse(why, status, "shm: %s cannot be opened: %s; %s", path.c_str(), strerror(error),
                  remedy);
  }
  const Status status = adopt_segment(address, std::move(fd), out, why);
  if (status != Status::invalid) return status;
  const Status gone = say_gone(address, true, why);  // the descriptor is another file's by now
  return gone != Status::ok ? gone : Status::unreachable;
}

Status adopt_segment(const Address& address, Descriptor fd, Segment* out, std::string* why) {
  const auto wrong = [&](const char* what, Status status = Status::unreachable) {
    return refuse(why, status, "shm: /proc/%u/fd/%u %s; use the same Torii in all processes",
                  address.pid, address.fd, what);
  };
  out->fd = std::move(fd);
  struct stat file;
  if (!sealed(out->fd.get(), &file))
    return wrong("is not a sealed segment of Torii", Status::invalid);
  if (file.st_size < static_cast<off_t>(kPage)) return wrong("is too small for a segment");
  if (!out->front.map(out->fd.get(), 0, kPage)) return wrong("cannot be mapped");
  const Header& header = out->header();
  const uint32_t claims = header.claims;
  const uint64_t ring_bytes = header.ring_bytes;
  if (!(header.address == address))
    return wrong("is the segment of another process", Status::invalid);
  if (claims == 0 || claims > kClaimsMax || !std::has_single_bit(ring_bytes) ||
      ring_bytes < kRingMin || ring_bytes > kRingMax ||
      static_cast<uint64_t>(file.st_size) != segment_bytes(claims, ring_bytes))
    return wrong("has a header that contradicts its size");
  out->self_address = header.self_address;
  if (!out->front.map(out->fd.get(), 0, rings_offset(claims))) return wrong("cannot be mapped");
  out->claims = claims;
  out->ring_bytes = ring_bytes;
  out->address = address;
  return Status::ok;
}

Descriptor open_pipe(const std::string& path, SpareDescriptor* spare) {
  Descriptor fd = open_sparing(path, O_RDWR | O_NONBLOCK | O_CLOEXEC, spare);
  struct stat file;
  if (fd && (fstat(fd.get(), &file) != 0 || !S_ISFIFO(file.st_mode))) {
    fd.reset();
    errno = EINVAL;
  }
  return fd;
}

Status say_gone(const Address& address, bool has_no_segment, std::string* why) {
  uint64_t start_time = 0;
  if (has_ended(address))
    return refuse(why, Status::peer_dead, "shm: process %u has ended; start it again", address.pid);
  if (!has_no_segment || !read_start_time(address.pid, &start_time)) return Status::ok;
  return say_closed(address, why);
}

Status say_closed(const Address& address, std::string* why) {
  return refuse(why, Status::peer_closed,
                "shm: process %u has closed its network interface; start it again", address.pid);
}

bool has_ended(const Address& address) {
  uint64_t start_time = 0;
  if (read_start_time(address.pid, &start_time)) return start_time != address.start_time;
  return kill(static_cast<pid_t>(address.pid), 0) != 0 && errno == ESRCH;
}

// --- handing over --------------------------------------------------------------------------------

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
  const int descriptors[] = {segment, pipe};
  for (int n = 0; n < kAnswersMax; n++) {
    const Descriptor asker(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!asker) {
      if (errno == EAGAIN) return;
      TORII_WARN(
          "shm: peers that ask for the segment cannot be answered: %m; raise the limit of "
          "open files (ulimit -n)");
      return;
    }
    if (!same_user(asker.get())) continue;
    // The buffer of a new connection has room.
    if (!send_message(asker.get(), &kMagic, sizeof(kMagic),
                      std::span(descriptors).first(pipe < 0 ? 1 : 2)))
      TORII_DEBUG("shm: handing a segment over failed: %m; it will be asked for again");
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
    return refuse(why, Status::unreachable,
                  "shm: process %u may not be opened through /proc, and its socket @%s cannot be "
                  "reached: %s; run both in one network namespace, or let the process be dumpable",
                  address.pid, at.name(), strerror(errno));
  }
  ucred who{};
  if (!other_end(socket.get(), &who) || static_cast<uint32_t>(who.pid) != address.pid)
    return refuse(why, Status::unreachable,
                  "shm: the socket @%s is not of process %u, which has ended; start the job anew",
                  at.name(), address.pid);
  if (who.uid != geteuid())
    return refuse(why, Status::unreachable,
                  "shm: process %u runs as user %u, this one as %u; run both as one user",
                  address.pid, who.uid, geteuid());
  *request = std::move(socket);
  return Status::ok;
}

Status receive(const Descriptor& request, Given* out) {
  uint32_t magic = 0;
  Descriptor given[kPassedMax];
  size_t count;
  const ssize_t n = receive_message(request.get(), &magic, sizeof(magic), given, &count);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Status::again;
  if (n != sizeof(magic) || magic != kMagic || count == 0 || count > 2) return Status::io_error;
  out->segment = std::move(given[0]);
  if (count > 1) out->pipe = open_pipe(format_text("/proc/self/fd/%d", given[1].get()));
  return Status::ok;
}

}  // namespace torii::shm
