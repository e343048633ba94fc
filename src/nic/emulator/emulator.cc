// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/emulator/emulator.h"

#include <errno.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/abstract_socket.h"
#include "core/base/log.h"

namespace torii::nic {
namespace {

constexpr size_t kCallersMax = 1024;      // that have no card yet
constexpr unsigned kRecordsOfOne = 64;    // before the next process has its turn
constexpr unsigned kEventsAtATime = 512;  // of the model, before the processes have theirs
constexpr unsigned kRoundsUnheard = 32;   // between two looks at sockets
// Without work, before it sleeps: who has just got an answer will ask for more.
constexpr unsigned kRoundsIdle = 50;
constexpr uint64_t kCatchUpNs = 1000000000;  // most that the model's clock follows at a time
constexpr uint64_t kRetryNs = 1000000;       // where a process waits for a context or a descriptor
// As long as this frames of a process that has closed may wait for one that computes.
constexpr uint64_t kClosingNs = 30000000000;

uint64_t real_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

}  // namespace

std::unique_ptr<Emulator> Emulator::make(FabricOptions options, std::string* why) {
  std::unique_ptr<Emulator> out(new Emulator);
  options.closing_ns = kClosingNs;
  out->fabric_ = Fabric::make(options, why);
  if (!out->fabric_ || !out->listen(why)) return nullptr;
  out->real_ns_ = real_ns();
  return out;
}

bool Emulator::listen(std::string* why) {
  uint64_t key = 0;
  if (getrandom(&key, sizeof(key), 0) != sizeof(key)) {
    *why = format_text("no random name for a socket: %m; allow getrandom in the seccomp profile");
    return false;
  }
  name_ = format_text("torii-fabric-%d-%016llx", getpid(), static_cast<unsigned long long>(key));
  const AbstractAddress address(name_);
  listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (listener_ && bind(listener_.get(), address.get(), address.bytes()) == 0 &&
      ::listen(listener_.get(), SOMAXCONN) == 0)
    return true;
  *why = format_text("cannot listen at the socket @%s: %m; allow Unix sockets, raise ulimit -n",
                     name_.c_str());
  return false;
}

void Emulator::serve(int wake, const std::function<bool()>& woken) {
  unsigned idle = 0;  // rounds
  for (unsigned rounds = 0;; rounds++) {
    bool busy = serve_members();
    busy |= run_model();
    idle = busy ? 0 : idle + 1;
    if (idle > 0) sched_yield();
    if (idle < kRoundsIdle && rounds % kRoundsUnheard != 0) continue;
    const bool sleeps = idle >= kRoundsIdle && falls_asleep();
    const bool is_woken = look(wake, sleeps ? pause_ns() : 0);
    for (const Member& member : members_) member.guest->say_asleep(false);
    if (is_woken && !woken()) return;
  }
}

void Emulator::finish(uint64_t most_ns) {
  const uint64_t deadline = real_ns() + most_ns;
  while (real_ns() < deadline) {
    bool busy = serve_members();
    busy |= run_model();
    if (!busy && members_.empty() && pause_ns() > kRetryNs) return;
    look(-1, busy ? 0 : std::min(pause_ns(), kRetryNs));
  }
}

// --- work ------------------------------------------------------------------------------------

bool Emulator::serve_members() {
  unsigned count = 0;
  for (size_t i = 0; i < members_.size();) {
    Guest& guest = *members_[i].guest;
    count += guest.serve(kRecordsOfOne);
    if (guest.state() == Guest::State::open) {
      i++;
      continue;
    }
    if (guest.state() == Guest::State::broken)
      TORII_ERROR(
          "torii-fabric: process %d on emulated node %u has written %s to its card's channel and "
          "is cut off; use the same Torii everywhere",
          guest.pid(), guest.info().node, guest.fault().c_str());
    members_.erase(members_.begin() + static_cast<ptrdiff_t>(i));
    count++;
  }
  return count > 0;
}

// The model's clock follows the real one, and runs ahead of it while its events are near.
bool Emulator::run_model() {
  Engine& engine = fabric_->engine();
  const uint64_t now = real_ns();
  engine.run_to(engine.now_ns() + std::min(now - real_ns_, kCatchUpNs));
  real_ns_ = now;
  unsigned count = 0;
  while (count < kEventsAtATime && engine.next_ns() != ~uint64_t{0} &&
         engine.next_ns() - engine.now_ns() <= kRunAheadNs) {
    engine.step();
    count++;
  }
  return count > 0;
}

uint64_t Emulator::pause_ns() const {
  const Engine& engine = fabric_->engine();
  return engine.next_ns() == ~uint64_t{0} ? ~uint64_t{0} : engine.next_ns() - engine.now_ns();
}

// False: a process has written something meanwhile.
bool Emulator::falls_asleep() {
  for (const Member& member : members_) member.guest->say_asleep(true);
  return std::ranges::none_of(members_, [](const Member& m) { return m.guest->has_work(); });
}

// --- descriptors -----------------------------------------------------------------------------

// Waits for any of them, and sees to those of processes. True: `wake` is readable.
bool Emulator::look(int wake, uint64_t pause) {
  // Those that wait for a context have said all they have to say.
  const bool waits = std::ranges::any_of(callers_, &Caller::has_said);
  if (waits) pause = std::min(pause, kRetryNs);
  set_ = {{wake, POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  for (const Member& member : members_) {
    set_.push_back({member.socket.get(), POLLIN, 0});
    set_.push_back({member.guest->doorbell(), POLLIN, 0});
  }
  const size_t first_caller = set_.size();
  for (const Caller& caller : callers_) set_.push_back({caller.socket.get(), POLLIN, 0});
  const timespec time{time_t(pause / 1000000000), long(pause % 1000000000)};
  if (ppoll(set_.data(), set_.size(), pause == ~uint64_t{0} ? nullptr : &time, nullptr) < 0)
    return false;
  // First those that end: a process that has closed a card may open the next one.
  const size_t members = (first_caller - 2) / 2;
  for (size_t i = members; i-- > 0;) {
    uint64_t rings;
    if (set_[3 + 2 * i].revents)
      static_cast<void>(!read(members_[i].guest->doorbell(), &rings, sizeof(rings)));
    if (set_[2 + 2 * i].revents && has_ended(members_[i], set_[2 + 2 * i].revents))
      members_.erase(members_.begin() + static_cast<ptrdiff_t>(i));
  }
  for (size_t i = callers_.size(); i-- > 0;) {
    const bool readable = set_[first_caller + i].revents != 0;
    if ((readable && !hear(callers_[i])) || (callers_[i].has_said && !admit(callers_[i])))
      callers_.erase(callers_.begin() + static_cast<ptrdiff_t>(i));
  }
  if (set_[1].revents) accept_all();
  return set_[0].revents != 0;
}

void Emulator::accept_all() {
  for (;;) {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!socket) {
      if (errno == EAGAIN) return;
      TORII_ERROR("torii-fabric: cannot accept another process: %m; raise ulimit -n");
      const timespec while_others_end{0, long(kRetryNs)};
      nanosleep(&while_others_end, nullptr);
      return;
    }
    ucred who{};
    if (callers_.size() == kCallersMax || !same_user(socket.get()) ||
        !other_end(socket.get(), &who))
      continue;
    Caller& caller = callers_.emplace_back();
    caller.socket = std::move(socket);
    caller.pid = who.pid;
  }
}

// False: it is none any more.
bool Emulator::hear(Caller& caller) {
  Descriptor given[kPassedMax];
  size_t count;
  channel::Hello hello;
  const ssize_t n = receive_message(caller.socket.get(), &hello, sizeof(hello), given, &count);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n != sizeof(hello) || caller.has_said) return false;
  caller.has_said = true;
  caller.hello = hello;
  return true;
}

// True: it has to wait until a process that has closed leaves its context.
bool Emulator::admit(Caller& caller) {
  std::string why;
  bool later;
  std::unique_ptr<Guest> guest = Guest::open(*fabric_, caller.hello, caller.pid, &why, &later);
  if (later) return true;
  if (!guest) {
    channel::Welcome refusal{};
    refusal.magic = channel::kMagic;
    refusal.status = static_cast<uint32_t>(Status::unreachable);
    why.copy(refusal.text, sizeof(refusal.text) - 1);
    static_cast<void>(send_message(caller.socket.get(), &refusal, sizeof(refusal), {}));
    return false;
  }
  const auto descriptors = guest->descriptors();
  const channel::Welcome welcome = guest->welcome();
  if (!send_message(caller.socket.get(), &welcome, sizeof(welcome),
                    std::span(descriptors).first(channel::descriptors(welcome))))
    return false;
  attached_++;
  members_.push_back({std::move(caller.socket), std::move(guest)});
  return false;
}

// Records that it had written before its end are carried out.
bool Emulator::has_ended(Member& member, short events) {
  if (events & POLLIN) {
    char byte;
    const ssize_t n = recv(member.socket.get(), &byte, sizeof(byte), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  }
  Guest& guest = *member.guest;
  static_cast<void>(guest.serve(channel::kRingBytes / sizeof(channel::Record)));
  if (guest.state() == Guest::State::open)
    TORII_INFO("torii-fabric: process %d on emulated node %u has ended without closing its card",
               guest.pid(), guest.info().node);
  return true;
}

}  // namespace torii::nic
