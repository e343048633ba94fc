// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A process's network interface: drivers, protocol and the two kinds of match space put
// together under one lock. Several may live in one process (simulations).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/base/counters.h"
#include "core/base/forked.h"
#include "core/base/param.h"
#include "core/base/status.h"
#include "core/collective/collectives.h"
#include "core/memory/allocations.h"
#include "core/memory/imports.h"
#include "core/multicast/group.h"
#include "core/ni/membership.h"
#include "core/ni/ni_lock.h"
#include "core/ni/progress_thread.h"
#include "core/ni/turn_page.h"
#include "core/ni/turns.h"
#include "core/ni/waiter.h"
#include "core/portals/portals.h"
#include "core/protocol/protocol.h"
#include "core/torii.h"
#include "core/tport/ports.h"
#include "core/trust/key_pair.h"

namespace torii {

struct NiConfig {
  Identity self;
  uint32_t size = 1;                   // processes in the job
  uint32_t local_size = 1;             // of them on this node
  bool threads = false;                // several threads call at once
  const torii_lock_t* lock = nullptr;  // the callers' own, not held while one yields or sleeps
  uint64_t (*clock)(void*) = nullptr;  // monotonic nanoseconds; null: the system's clock
  void* clock_context = nullptr;
  // As the parameter: broadcasts between nodes of fewer bytes are left to messages, and all other
  // operations there, unless it is 0. In a group the largest value of its members holds.
  uint64_t multicast_min = params().multicast_min;
};

// Host name, user and process id of this process.
Identity own_identity();

// The processes of this job, as the launcher knows them.
class Directory {
 public:
  // The address of process (nid, pid); false with the reason in *why.
  virtual bool address(uint32_t nid, uint32_t pid, std::vector<std::byte>* out,
                       std::string* why) = 0;
  // Where rank `rank` runs; false if there is no such rank.
  virtual bool ids(uint32_t rank, uint32_t* nid, uint32_t* pid) = 0;

 protected:
  ~Directory() = default;
};

class Ni;

// Ends an interface, but not in a child of fork(): there it stays as it is.
struct EndNi {
  void operator()(Ni* ni) const;
};
using NiPointer = std::unique_ptr<Ni, EndNi>;

class Ni final : public Upper, public PortalsHost {
 public:
  // Opens the drivers that the parameters name. Null, with the reasons in *why, if none opens.
  static NiPointer open(const NiConfig& config, std::string* why);
  // An interface over drivers that the caller opens with protocol().next_sink().
  explicit Ni(const NiConfig& config);
  ~Ni();
  bool forked() const override { return owner_.forked(); }

  void lock() override { lock_.lock(); }
  bool try_lock() { return lock_.try_lock(); }
  void unlock() override {
    if (__builtin_expect(lock_.kind() == NiLock::Kind::none, 1)) return;
    if (__builtin_expect(watched_, 0)) wake_sleepers();
    lock_.unlock();
  }
  // While nobody uses the interface.
  void enable_threads();
  bool knows_threads() const { return users_ == NiLock::Users::threads; }
  const torii_lock_t* callers_lock() const { return config_.lock; }

  Protocol& protocol() { return protocol_; }
  Ports& ports() { return ports_; }
  Groups& groups() { return groups_; }
  Collectives& collectives() { return collectives_; }
  Portals& portals() { return portals_; }
  Allocations& allocations() { return allocations_; }
  Exports& exports() { return exports_; }
  Imports& imports() { return imports_; }
  Counters& counters() { return counters_; }
  uint64_t now_ns() override;

  // How much a round of progress does at most.
  enum class Round : uint8_t { all, first_event };

  // As torii_progress; the caller does not hold the lock.
  template <Round round = Round::all>
  [[gnu::hot]] int make_progress() {
    if (__builtin_expect(!try_lock(), 0)) return 0;
    const unsigned events = progress_locked<round>();
    const bool due = callbacks_due();
    unlock();
    if (due) run_callbacks();
    return int(events) + due;
  }
  // The reason why a caller makes a step: to look before it goes on with work of its own, to wait,
  // or to wait for any of the interfaces that wait together.
  enum class Waits : uint8_t { looks, here, any };

  // As torii_wait_step; the caller does not hold the lock.
  template <Round round = Round::all, Waits waits = Waits::here>
  int wait_step() {
    // Where processors are scarce, others of the job wait for what the caller does with an event.
    const int events = __builtin_expect(wait_policy_.scarce, 0)
                           ? make_progress<Round::first_event>()
                           : make_progress<round>();
    const int rested = rest_after(events, waits);
    return events > 0 ? events : rested;
  }
  // As torii_wait_step_beside; the caller does not hold the lock.
  int wait_step_beside(uint32_t* rounds) {
    const std::atomic_ref<uint32_t> seen(*rounds);
    const uint32_t now = rounds_.load(std::memory_order_relaxed);
    if (seen.load(std::memory_order_relaxed) != now) {
      seen.store(now, std::memory_order_relaxed);
      return 0;
    }
    const int events = wait_step();
    seen.store(rounds_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return events;
  }
  // The back-off after a round of progress that found so many events; the caller does not hold the
  // lock. Nonzero: it gave the processor away.
  int rest_after(int events, Waits waits) {
    Waiter& w = waiter();
    if (events > 0) {
      w.busy();
      return 0;
    }
    return __builtin_expect(w.idle(), 0) ? rest(w, waits) : 0;
  }
  // One round of progress; the caller holds the lock. Callbacks stay queued.
  template <Round round = Round::all>
  unsigned progress_locked() {
    if (__builtin_expect(++clock_age_ >= kClockEvery, 0)) read_clock();
    polled_ = true;
    rounds_.store(rounds_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    unsigned events = round == Round::first_event ? protocol_.progress_first(now_ns_)
                                                  : protocol_.progress(now_ns_);
    if (__builtin_expect(imports_.gathers(), 0)) imports_.push();
    if (__builtin_expect(collectives_.active(now_ns_), 0)) events += collectives_.progress();
    // Another thread's wait may be over by it.
    if (__builtin_expect(several_threads(), 0)) visits_ += events > 0;
    return events;
  }
  // Are there completions, or events for Portals handlers? The caller holds the lock.
  bool callbacks_due() { return !ports_.completions().empty() || portals_.handlers_due(); }
  // Runs the callbacks and handlers that are due; the caller does not hold the lock.
  void run_callbacks();
  // As torii_give_way; the caller does not hold the lock.
  void give_way();
  // As torii_wait_together: the interfaces beside this one. While nobody uses them.
  void wait_with(std::vector<Ni*> others) { others_ = std::move(others); }
  // Something happened here: a thread that waits for one of them begins anew.
  void end_wait_together() {
    if (__builtin_expect(!others_.empty(), 0)) waiter().busy();
  }
  // This one is closed; the others wait without it. While nobody waits.
  void wait_alone();
  // As torii_wait; the caller does not hold the lock.
  int wait(int milliseconds);
  // Finds or makes a peer and reports the path; the caller holds the lock.
  Status connect(std::span<const std::byte> address, Peer** out, std::string* why);
  // Makes a group, as Groups::open, and reports the path; the caller holds the lock.
  Status open_group(std::string_view name, std::span<Peer* const> members, Group** out,
                    std::string* why);
  // Starts the thread that makes progress while the application computes. Once, and while nobody
  // uses the interface. False, with the reason in the log: there is none.
  bool start_progress_thread(ProgressThread::Kind kind = ProgressThread::Kind::full);
  // Ends it. False: there was none.
  bool stop_progress_thread();
  // The application has begun an operation of so many bytes, which goes on: the progress thread
  // is to be ready soon. With the lock or without it.
  void begun(uint64_t bytes) override {
    if (__builtin_expect(bytes >= kBigBytes && progress_thread_, 0)) progress_thread_->call();
  }
  // As torii_set_others().
  void set_others(int (*others)()) {
    lock();
    waits_for_others_ = others;
    unlock();
  }
  // The directories of processes that may talk to this one; under the lock.
  Directories& directories() { return directories_; }
  // As torii_missed_network(); empty: none.
  const std::string& missed_network() const { return missed_network_; }
  // For Portals, which names processes by (nid, pid); must outlive the interface.
  void set_directory(Directory* directory) { directory_ = directory; }
  // Hands everything accepted to the drivers, waits until it has arrived as far as they know, both
  // for at most a second, and takes leave.
  void close();

  void set_peer_down(torii_peer_down_t callback, void* arg) {
    peer_down_ = callback;
    peer_down_arg_ = arg;
  }

  // For the progress thread.
  enum class Visit {
    refused,  // the application is inside, or was since `turns`
    asleep,   // it sleeps inside
    moved,    // something was done, and more may be to do
    armed,    // nothing to do: sleep on the descriptors
    waiting   // nothing to do now, and the drivers cannot wake the thread
  };
  // Adds to *events how many it handled.
  Visit visit(uint32_t turns, std::vector<int>* descriptors, unsigned* events);
  uint32_t turns() const { return lock_.turns(); }

  unsigned references = 1;  // of torii_open

 private:
  static constexpr uint32_t kClockEvery = 64;  // rounds of progress between looks at the clock
  static constexpr uint64_t kBigBytes = 16 << 10;

  [[gnu::hot]] void on_tagged(Peer& peer, wire::Tagged header,
                              std::span<const std::byte> payload) override {
    ports_.on_tagged(peer, header, payload);
  }
  void on_put(Arrival& arrival) override;
  void on_get(Arrival& arrival) override;
  void on_update(Arrival& arrival) override { exports_.on_update(arrival); }
  void on_peer_down(Peer& peer, Status why) override;
  void on_joined(Peer& peer, uint64_t group, bool asks) override {
    groups_.on_joined(peer, group, asks);
  }
  void on_lossy(uint8_t rail, PeerId group, uint32_t sender,
                std::span<const std::byte> frame) override {
    collectives_.on_lossy(rail, group, sender, frame);
  }
  Peer* resolve(uint32_t nid, uint32_t pid, std::string* why) override;
  uint32_t job_size() override { return config_.size; }
  bool rank_ids(uint32_t rank, uint32_t* nid, uint32_t* pid) override;
  unsigned progress() override { return progress_locked(); }
  bool sleep(int milliseconds) override;
  void wake() override;
  bool several_threads() const { return users_ != NiLock::Users::one_thread; }
  Waiter& waiter() { return __builtin_expect(several_threads(), 0) ? t_waiter : waiter_; }
  // The caller gives the processor away: others may have its lock meanwhile.
  template <typename Away>
  void without_callers_lock(Away away) {
    const torii_lock_t* const own = config_.lock;
    if (own) own->give_up(own->arg);
    away();
    if (own) own->take(own->arg);
  }
  // The events that end a sleep: those that happen here; also arrivals at those of the interfaces
  // beside where nobody else sleeps; or all that happens at any of them.
  enum class Wakers : uint8_t { here, arrivals, all };
  static Wakers wakers(Waits waits) {
    return waits == Waits::looks  ? Wakers::here
           : waits == Waits::here ? Wakers::arrivals
                                  : Wakers::all;
  }
  // A thread that sleeps, here and elsewhere.
  struct Sleeper {
    uint64_t most_ns;
    Wakers wakers;
    uint64_t changes = 0;          // how often something changed, at all of them
    std::vector<int> descriptors;  // what wakes it
    std::vector<Ni*> beside;       // where it sleeps as it does here
  };
  [[gnu::noinline]] int rest(Waiter& waiter, Waits waits);
  bool missed(Waiter& waiter);
  bool changed(Waiter& waiter);
  uint64_t rested(uint64_t& count);
  uint64_t yield();
  void timed_yield(Waiter& waiter);
  bool wait_in_turns(Waiter& waiter, bool patient, uint64_t now, int* events);
  Turns::View look_at_turns(uint64_t now);
  Visit stand_in(std::vector<int>* descriptors, unsigned* events);
  [[gnu::noinline]] void wake_sleepers();
  bool sleep_ns(uint64_t most, Wakers wakers);
  bool arm(std::vector<int>* descriptors);
  bool fall_asleep(std::vector<int>* descriptors);
  bool fall_asleep_beside(Sleeper* sleeper);
  bool fall_asleep_elsewhere(Sleeper* sleeper);
  void wake_up();
  void read_clock();
  void learn_of_yield(const Identity& other);
  std::string describe_found(const Peer& peer) const;
  bool needless(const std::string& name) const;
  std::string why_apart() const;
  bool open_drivers(std::string* why);
  bool admit_members(const std::string& driver, DriverEnv* env, std::string* why);
  void watch_forks();
  static void after_fork();
  static void tell_peer_down(void* self, const torii_result_t* result);
  void report_counters();

  NiConfig config_;
  OwnerProcess owner_;
  Counters counters_;
  // For the drivers, which end before them.
  Directories directories_;
  std::vector<std::unique_ptr<Membership>> memberships_;
  std::unique_ptr<KeyPair> keys_;
  Protocol protocol_;
  Ports ports_;
  Groups groups_;
  Portals portals_;
  Allocations allocations_;
  Exports exports_;
  Imports imports_;
  static thread_local Waiter t_waiter;
  std::vector<Ni*> others_;  // for which threads wait together with this one
  Turns turns_;
  WaitPolicy wait_policy_;
  Collectives collectives_;
  std::unique_ptr<TurnPage> turn_page_;  // none before others were seen to want the processors
  uint64_t next_page_ns_ = 0;            // when to look for the page again
  uint64_t last_turn_ns_ = 0;            // begin of the job's last turn
  bool yield_known_ = false;             // wait_policy_.apart was found out
  Waiter waiter_;
  bool sleeping_ = false;        // a thread that the drivers and wake() wake
  bool watch_sleeper_ = false;   // and it has not been woken yet
  bool watch_thread_ = false;    // the same for the progress thread
  bool watched_ = false;         // one of the two
  bool polled_ = false;          // since the drivers were armed
  uint64_t callbacks_run_;       // counts the times that callbacks were run
  uint64_t callbacks_told_ = 0;  // as the sleeper knows it
  uint64_t visits_;              // counts the times that the progress thread found something to do
  NiLock lock_;
  NiLock::Users users_;
  uint64_t now_ns_ = 0;
  uint32_t clock_age_ = 0;
  std::atomic<uint32_t> rounds_{0};   // of progress; changed under the lock
  std::vector<std::string> refused_;  // drivers that did not open, and why
  std::string missed_network_;        // why one of them did not though there is a card
  std::string left_out_;              // drivers that nobody needs, as the end of a sentence
  int wake_fd_ = -1;                  // eventfd; ends a sleep()
  Directory* directory_ = nullptr;
  int (*waits_for_others_)() = nullptr;
  torii_peer_down_t peer_down_ = nullptr;
  void* peer_down_arg_ = nullptr;
  bool on_network_ = false;  // one of the drivers is
  std::unique_ptr<ProgressThread> progress_thread_;
};

// Holds the interface's lock for a scope.
class NiGuard {
 public:
  explicit NiGuard(Ni& ni) : ni_(ni) { ni_.lock(); }
  ~NiGuard() { ni_.unlock(); }
  NiGuard(const NiGuard&) = delete;

 private:
  Ni& ni_;
};

}  // namespace torii
