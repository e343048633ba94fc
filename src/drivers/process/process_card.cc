// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/process/process_card.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/abstract_socket.h"
#include "core/base/attach.h"
#include "core/base/emulated.h"
#include "core/base/forked.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/pause.h"
#include "core/base/sealed_memory.h"
#include "core/base/signals_blocked.h"
#include "nic/emulator/channel.h"

namespace torii {
namespace {

using namespace nic::channel;

constexpr unsigned kAnswerPolls = 100;   // before a process sleeps
constexpr uint32_t kQuestionNs = 20000;  // about, until it is answered
constexpr int64_t kNapNs = 50000;        // while the ring is full
constexpr int64_t kGlanceNs = 50000000;
constexpr int64_t kPatienceNs =
    30000000000;  // an emulator that does nothing is no better than none

class ProcessCard final : public nic::Card {
 public:
  ProcessCard() = default;
  ~ProcessCard() override;
  Status attach(const char* card, uint32_t node, std::string* why);

  const nic::CardInfo& info() const override { return info_; }
  nic::Liveness liveness() const override { return nic::Liveness(words()); }
  void write32(uint32_t at, uint32_t value) override { write(at, &value, sizeof(value)); }
  void write(uint32_t at, const void* from, size_t n) override;
  uint32_t read32(uint32_t at) override;
  void read(uint32_t at, void* to, size_t n) override;
  // window() stays empty: a transfer by DMA would be several questions, and a copy from there is
  // none.
  void peek(uint32_t at, void* to, size_t n) override;
  Status map(void* base, size_t n, uint32_t rights, uint64_t* address) override;
  void unmap(uint64_t address) override;
  std::span<std::byte> shared() override {
    return {lent_.base() + nic::liveness_bytes(endpoints_), shared_bytes_};
  }
  Status control(const nic::Control& in, nic::Control* out) override;
  void post(const nic::Control& in) override {
    static_cast<void>(append({Kind::control, 0, sizeof(in), 0}, &in));
  }
  int interrupt() override { return interrupt_.get(); }

 private:
  Memory& memory() const { return *reinterpret_cast<Memory*>(channel_.base()); }
  std::span<nic::Liveness::Word> words() const {
    return {reinterpret_cast<nic::Liveness::Word*>(lent_.base()), 1 + size_t{endpoints_}};
  }
  Status hear(Welcome* welcome, Descriptor (&given)[kPassedMax], size_t* count, std::string* why);
  Status take(const Welcome& welcome, Descriptor (&given)[kPassedMax], std::string* why);
  bool has_room(uint32_t bytes);
  bool append(Record record, const void* payload);
  Status ask(Record record, const void* payload, void* answer, uint32_t bytes);
  void ask_for(uint32_t at, void* to, size_t n);
  bool await_answer(uint32_t question);
  void lose(const char* how);
  static void* watch(void* self);

  std::string name_;  // of the card
  AttachCookie cookie_{};
  Descriptor socket_, doorbell_, interrupt_;
  Mapping channel_, lent_, card_memory_;
  nic::CardInfo info_;
  uint32_t card_memory_bytes_ = 0;
  uint32_t endpoints_ = 0;
  uint64_t shared_bytes_ = 0;
  bool attaches_ = false;
  int emulator_ = 0;  // its pid
  OwnerProcess owner_;
  uint32_t tail_ = 0;
  uint32_t question_ = 0;
  std::atomic<bool> broken_{false};  // the emulator is gone
  std::atomic<bool> closing_{false};
  pthread_t watcher_{};
  bool watched_ = false;
};

// --- attaching -------------------------------------------------------------------------------

Status ProcessCard::attach(const char* card, uint32_t node, std::string* why) {
  EmulatedCluster cluster;
  name_ = card;
  if (!find_emulated_cluster(&cluster, why)) {
    *why = name_ + ": " + *why;
    return Status::unsupported;
  }
  Hello hello{};
  hello.magic = kMagic;
  hello.node = node == kNoEmulatedNode ? kAnyNode : node;
  name_.copy(hello.card, sizeof(hello.card) - 1);
  hello.cookie_at = reinterpret_cast<uintptr_t>(&cookie_);
  const AbstractAddress address(cluster.socket);
  socket_ = Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  ucred who{};
  if (getrandom(&cookie_, sizeof(cookie_), 0) != sizeof(cookie_) || !socket_ ||
      connect(socket_.get(), address.get(), address.bytes()) != 0 ||
      !other_end(socket_.get(), &who)) {
    *why = format_text(
        "%s: torii-fabric is not to be reached at its socket @%s: %s; it may have ended, or "
        "runs in another network namespace: start the job by it",
        card, cluster.socket.c_str(), strerror(errno));
    return Status::unreachable;
  }
  emulator_ = who.pid;
  if (who.uid != geteuid()) {
    *why = format_text("%s: torii-fabric runs as user %u, this process as %u; run both as one user",
                       card, who.uid, geteuid());
    return Status::denied;
  }
  attach_permit();
  std::memcpy(hello.cookie, &cookie_, sizeof(cookie_));
  static_assert(sizeof(hello.cookie) == sizeof(cookie_));
  Welcome welcome{};
  Descriptor given[kPassedMax];
  size_t count = 0;
  if (!send_message(socket_.get(), &hello, sizeof(hello), {})) {
    *why = format_text("%s: torii-fabric (pid %d) does not listen: %m; start the job again", card,
                       emulator_);
    return Status::io_error;
  }
  Status status = hear(&welcome, given, &count, why);
  if (status == Status::ok && count != descriptors(welcome)) {
    *why = format_text(
        "%s: torii-fabric (pid %d) gave %zu descriptors instead of %zu; use the "
        "same Torii everywhere",
        card, emulator_, count, descriptors(welcome));
    status = Status::corrupt;
  }
  return status == Status::ok ? take(welcome, given, why) : status;
}

Status ProcessCard::hear(Welcome* welcome, Descriptor (&given)[kPassedMax], size_t* count,
                         std::string* why) {
  pollfd readable{socket_.get(), POLLIN, 0};
  int polled;
  do {
    polled = poll(&readable, 1, static_cast<int>(params().boot_deadline_ms));
  } while (polled < 0 && errno == EINTR);
  const ssize_t n =
      polled > 0 ? receive_message(socket_.get(), welcome, sizeof(*welcome), given, count) : polled;
  if (n <= 0) {
    *why = format_text("%s: torii-fabric (pid %d) %s; start the job again", name_.c_str(),
                       emulator_, polled == 0 ? "does not answer" : "has ended");
    return Status::unreachable;
  }
  welcome->text[sizeof(welcome->text) - 1] = 0;
  if (n != sizeof(*welcome) || welcome->magic != kMagic ||
      welcome->status > static_cast<uint32_t>(Status::io_error)) {
    *why = format_text(
        "%s: torii-fabric (pid %d) does not speak this version of Torii; use the same everywhere",
        name_.c_str(), emulator_);
    return Status::corrupt;
  }
  if (welcome->status != 0) *why = name_ + ": " + welcome->text;
  return static_cast<Status>(welcome->status);
}

Status ProcessCard::take(const Welcome& welcome, Descriptor (&given)[kPassedMax],
                         std::string* why) {
  struct stat channel, lent, card;
  info_.fabric = welcome.fabric;
  info_.name = welcome.name;
  info_.node = welcome.node;
  info_.contexts = welcome.contexts;
  info_.bar_bytes = welcome.bar_bytes;
  info_.load_ns = kQuestionNs;
  info_.shared_address = welcome.shared_address;
  endpoints_ = welcome.endpoints;
  shared_bytes_ = welcome.shared_bytes;
  card_memory_bytes_ = welcome.memory_bytes;
  const size_t words = nic::liveness_bytes(endpoints_);
  if (endpoints_ == 0 || endpoints_ > 1 << 16 || info_.contexts == 0 ||
      nic::endpoint_of(info_.name) >= endpoints_ ||
      info_.node != nic::endpoint_of(info_.name) / info_.contexts || info_.bar_bytes % 4 ||
      shared_bytes_ > 1ull << 32 || !sealed(given[kChannelFd].get(), &channel) ||
      !sealed(given[kLentFd].get(), &lent) ||
      static_cast<uint64_t>(channel.st_size) < sizeof(Memory) ||
      static_cast<uint64_t>(lent.st_size) < words + shared_bytes_ ||
      card_memory_bytes_ > info_.bar_bytes ||
      (card_memory_bytes_ > 0 && (!sealed(given[kMemoryFd].get(), &card) ||
                                  static_cast<uint64_t>(card.st_size) < card_memory_bytes_))) {
    *why = format_text(
        "%s: torii-fabric (pid %d) describes a card that makes no sense; use the "
        "same Torii everywhere",
        name_.c_str(), emulator_);
    return Status::corrupt;
  }
  if (!channel_.map(given[kChannelFd].get(), 0, sizeof(Memory)) ||
      !lent_.map(given[kLentFd].get(), 0, words + shared_bytes_) ||
      (card_memory_bytes_ > 0 &&
       !card_memory_.map(given[kMemoryFd].get(), 0, card_memory_bytes_, false))) {
    *why =
        format_text("%s: memory of the card cannot be mapped: %m; raise ulimit -v", name_.c_str());
    return Status::no_memory;
  }
  doorbell_ = std::move(given[kDoorbellFd]);
  interrupt_ = std::move(given[kInterruptFd]);
  attaches_ = welcome.attach_error == 0;
  if (!attaches_)
    TORII_WARN(
        "%s: torii-fabric may not reach this process's memory (cross-memory attach: %s), so long "
        "messages are copied; allow it in Yama or in the seccomp profile",
        name_.c_str(), strerror(welcome.attach_error));
  const SignalsBlocked blocked;
  const int error = pthread_create(&watcher_, nullptr, watch, this);
  watched_ = error == 0;
  if (!watched_) {
    *why = format_text("%s: no thread to watch torii-fabric: %s; raise ulimit -u", name_.c_str(),
                       strerror(error));
    return Status::no_memory;
  }
  close_in_children(socket_.get());
  return Status::ok;
}

ProcessCard::~ProcessCard() {
  if (!watched_ || owner_.forked()) return;
  closing_ = true;  // the emulator hangs up as soon as it has read the record
  static_cast<void>(append({Kind::close, 0, 0, 0}, nullptr));
  forget_in_children(socket_.get());
  shutdown(socket_.get(), SHUT_RDWR);
  pthread_join(watcher_, nullptr);
}

// --- the emulator's end ------------------------------------------------------------------------

void* ProcessCard::watch(void* arg) {
  auto* const self = static_cast<ProcessCard*>(arg);
  pollfd ended{self->socket_.get(), POLLIN, 0};
  while (poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
  self->lose("has ended");  // it says nothing after its welcome
  return nullptr;
}

void ProcessCard::lose(const char* how) {
  // A card that is being given back waits for nobody either, but has nothing to tell any more.
  if (broken_.exchange(true) || closing_) return;
  TORII_ERROR(
      "%s: torii-fabric (pid %d) %s; operations with processes of other emulated nodes end with "
      "an error; start the job again",
      name_.c_str(), emulator_, how);
  for (nic::Liveness::Word& word : words().subspan(1))
    if ((word & 3) == static_cast<uint32_t>(nic::Life::there))
      word = nic::Liveness::word(word, nic::Life::dead);
  words()[0].fetch_add(1);
  const uint64_t one = 1;
  static_cast<void>(!::write(interrupt_.get(), &one, sizeof(one)));
  syscall(SYS_futex, &memory().answered, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// --- accesses --------------------------------------------------------------------------------

bool ProcessCard::has_room(uint32_t bytes) {
  const uint32_t used = tail_ - memory().head.load(std::memory_order_acquire);
  if (used <= kRingBytes) return bytes <= kRingBytes - used;
  lose("has spoilt the channel to its card");
  return false;
}

// False: the emulator is gone.
bool ProcessCard::append(Record record, const void* payload) {
  const uint32_t payload_bytes = payload ? record.bytes : 0;
  const uint32_t bytes = sizeof(record) + padded(payload_bytes);
  for (int64_t waited = 0; !broken_ && !has_room(bytes); waited += kNapNs) {
    const timespec nap{0, kNapNs};
    nanosleep(&nap, nullptr);
    if (waited > kPatienceNs) lose("does not take what this process writes");
  }
  if (broken_) return false;
  ring_write(memory().ring, tail_, &record, sizeof(record));
  if (payload) ring_write(memory().ring, tail_ + sizeof(record), payload, payload_bytes);
  tail_ += bytes;
  memory().tail.store(tail_, std::memory_order_release);
  // It says that it sleeps, and then looks once more.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint64_t one = 1;
  if (memory().asleep.load(std::memory_order_relaxed))
    static_cast<void>(!::write(doorbell_.get(), &one, sizeof(one)));
  return true;
}

bool ProcessCard::await_answer(uint32_t question) {
  Memory& m = memory();
  for (unsigned i = 0; i < kAnswerPolls; i++) {
    if (m.answered.load(std::memory_order_acquire) == question) return true;
    pause_briefly();
  }
  m.waiting.store(1);
  for (int64_t waited = 0;;) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint32_t seen = m.answered.load(std::memory_order_acquire);
    if (seen == question || broken_) break;
    const timespec glance{0, kGlanceNs};
    if (syscall(SYS_futex, &m.answered, FUTEX_WAIT, seen, &glance, nullptr, 0) < 0 &&
        errno == ETIMEDOUT)
      waited += kGlanceNs;
    if (waited > kPatienceNs) lose("does not answer");
  }
  m.waiting.store(0, std::memory_order_relaxed);
  return !broken_;
}

Status ProcessCard::ask(Record record, const void* payload, void* answer, uint32_t bytes) {
  record.question = ++question_ ? question_ : ++question_;
  if (!append(record, payload) || !await_answer(record.question)) return Status::peer_dead;
  const uint32_t status = memory().status;
  if (status > static_cast<uint32_t>(Status::io_error) || memory().bytes != bytes) {
    lose("has given an answer that makes no sense");
    return Status::peer_dead;
  }
  std::memcpy(answer, memory().answer, bytes);
  return static_cast<Status>(status);
}

void ProcessCard::write(uint32_t at, const void* from, size_t n) {
  TORII_ASSERT(at % 4 == 0 && n % 4 == 0);
  const auto* bytes = static_cast<const std::byte*>(from);
  while (n > 0) {
    const auto piece = static_cast<uint32_t>(std::min<size_t>(n, kPieceMax));
    if (!append({Kind::store, at, piece, 0}, bytes)) return;
    at += piece;
    bytes += piece;
    n -= piece;
  }
}

uint32_t ProcessCard::read32(uint32_t at) {
  uint32_t value;
  read(at, &value, sizeof(value));
  return value;
}

// From the card's memory. A word is read as a whole, and before what is read later.
void ProcessCard::peek(uint32_t at, void* to, size_t n) {
  TORII_ASSERT(at % 4 == 0 && n % 4 == 0);
  if (broken_ || at > card_memory_bytes_ || n > card_memory_bytes_ - at) return ask_for(at, to, n);
  const std::byte* const from = card_memory_.base() + at;
  if (n == sizeof(uint32_t)) {
    const uint32_t word =
        __atomic_load_n(reinterpret_cast<const uint32_t*>(from), __ATOMIC_ACQUIRE);
    std::memcpy(to, &word, sizeof(word));
  } else if (n > 0) {
    std::memcpy(to, from, n);
  }
}

void ProcessCard::read(uint32_t at, void* to, size_t n) {
  const bool pending = memory().head.load(std::memory_order_acquire) != tail_;
  return pending ? ask_for(at, to, n) : peek(at, to, n);
}

void ProcessCard::ask_for(uint32_t at, void* to, size_t n) {
  TORII_ASSERT(at % 4 == 0 && n % 4 == 0);
  auto* bytes = static_cast<std::byte*>(to);
  while (n > 0) {
    const auto piece = static_cast<uint32_t>(std::min<size_t>(n, kPieceMax));
    if (ask({Kind::load, at, piece, 0}, nullptr, bytes, piece) != Status::ok)
      std::memset(bytes, 0xff, piece);
    at += piece;
    bytes += piece;
    n -= piece;
  }
}

Status ProcessCard::map(void* base, size_t n, uint32_t rights, uint64_t* address) {
  if (!attaches_ || broken_) return Status::no_memory;
  const MapCall call{reinterpret_cast<uintptr_t>(base), n, rights, 0};
  return ask({Kind::map, 0, sizeof(call), 0}, &call, address, sizeof(*address));
}

void ProcessCard::unmap(uint64_t address) {
  const MapCall call{0, 0, 0, address};
  uint64_t ignored;
  static_cast<void>(ask({Kind::unmap, 0, sizeof(call), 0}, &call, &ignored, sizeof(ignored)));
}

Status ProcessCard::control(const nic::Control& in, nic::Control* out) {
  nic::Control answer;
  const Status status = ask({Kind::control, 0, sizeof(in), 0}, &in, &answer, sizeof(answer));
  if (!broken_) *out = answer;
  return status;
}

}  // namespace

std::unique_ptr<nic::Card> attach_card(const char* card, uint32_t node, std::string* why) {
  auto made = std::make_unique<ProcessCard>();
  if (made->attach(card, node, why) != Status::ok) return nullptr;
  return made;
}

}  // namespace torii
