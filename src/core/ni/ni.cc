// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/ni/ni.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/base/host_name.h"
#include "core/base/log.h"
#include "core/base/processors.h"

namespace torii {

namespace {

constexpr uint64_t kPageNs = 20000000;          // between two looks for the page of turns
constexpr uint64_t kPageHolderNs = 1000000000;  // the same of the process that others find
constexpr uint64_t kCloseNs = 1000000000;       // longest wait for drivers and peers when closing
constexpr uint64_t kVisitMove = 256 << 10;  // of a remote read at a time, by the progress thread
constexpr unsigned kVisitRounds = 256;      // of progress in one visit
constexpr uint64_t kSoonNs = 50000000;      // the progress thread does not sleep over such timers

[[gnu::hot]] uint64_t system_clock_ns(void*) {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

// Where an interface's counts begin: a thread's waiter, which remembers them, meets several
// interfaces.
uint64_t count_base() {
  static std::atomic<uint64_t> opened{0};
  return ++opened << 40;
}

ProtocolConfig protocol_config(const NiConfig& config) {
  const Params& p = params();
  ProtocolConfig out;
  out.clock = config.clock ? config.clock : system_clock_ns;
  out.clock_context = config.clock_context;
  out.self = config.self;
  out.eager_limit = p.eager_limit;
  out.eager_window = choice::eager_window(p.eager_window, p.unexpected_memory, config.size);
  return out;
}

WaitPolicy wait_policy(const NiConfig& config, const ProcessorSet& own) {
  const Params& p = params();
  WaitPolicy policy;
  if (p.wait == "spin") policy.mode = WaitMode::spin;
  if (p.wait == "sleep") policy.mode = WaitMode::sleep;
  const double usable = usable_processors();
  policy.scarce = config.local_size > usable || p.wait == "yield";
  policy.own = std::min<double>(own.count(), usable / config.local_size);
  policy.spin_ns = uint64_t(p.spin_us) * 1000u;
  return policy;
}

// Threads of this process that have waited beside others, as long as they live.
std::atomic<unsigned> waiting_threads{0};
struct WaitingThread {
  WaitingThread() { ++waiting_threads; }
  ~WaitingThread() { --waiting_threads; }
};

// All interfaces, for children of this process; a program has one or two, a simulation may have
// more.
ForkTable<Ni*, 256> g_interfaces;

NiLock::Users users_of(const NiConfig& config) {
  if (config.threads) return NiLock::Users::threads;
  return config.lock ? NiLock::Users::in_turn : NiLock::Users::one_thread;
}

}  // namespace

thread_local Waiter Ni::t_waiter;

Identity own_identity() {
  Identity id;
  id.uid = getuid();
  id.os_pid = uint32_t(getpid());
  host_name().copy(id.host, sizeof(id.host) - 1);
  return id;
}

Ni::Ni(const NiConfig& config)
    : config_(config),
      directories_(config.self.job, config.size),
      protocol_(protocol_config(config), this, &counters_),
      ports_(protocol_, counters_, this),
      groups_(protocol_, counters_, ports_.completions(), this),
      portals_(protocol_, counters_, *this, Portals::grant(nullptr)),
      allocations_(protocol_.drivers(), protocol_.registrations(), counters_),
      exports_(protocol_, counters_, ports_.completions(), this),
      imports_(protocol_, counters_, ports_.completions(), exports_, this),
      turns_(config.self.job, own_processors()),
      wait_policy_(wait_policy(config, turns_.processors())),
      collectives_({protocol_, ports_, allocations_, exports_, imports_, counters_,
                    wait_policy_.scarce, config.multicast_min,
                    [](void* self) { return static_cast<Ni*>(self)->now_ns(); }, this, rounds_}),
      callbacks_run_(count_base()),
      visits_(callbacks_run_),
      users_(users_of(config)),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  exports_.on_unused(
      [](void* allocations, void* base) { static_cast<Allocations*>(allocations)->release(base); },
      &allocations_);
  lock_.use(NiLock::kind_for(users_, false));
  if (!config_.clock) config_.clock = system_clock_ns;
  read_clock();
  watch_forks();
}

Ni::~Ni() {
  g_interfaces.remove(this);
  stop_progress_thread();
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

void EndNi::operator()(Ni* ni) const {
  if (!ni->forked()) delete ni;
}

// Children of a fork are refused by the lock.
void Ni::watch_forks() {
  static const bool watched = pthread_atfork(nullptr, nullptr, after_fork) == 0;
  if (watched) g_interfaces.add(this);
}

void Ni::after_fork() {
  g_interfaces.each([](Ni* ni) { ni->lock_.use(NiLock::Kind::forked); });
}

NiPointer Ni::open(const NiConfig& config, std::string* why) {
  NiPointer ni(new Ni(config));
  if (!ni->open_drivers(why)) return nullptr;
  if (params().progress_thread) {
    ni->start_progress_thread();
  } else if (ni->on_network_) {
    ni->start_progress_thread(ProgressThread::Kind::standby);
  }
  return ni;
}

uint64_t Ni::now_ns() { return config_.clock(config_.clock_context); }

// A clock of the user's own is read in every round.
void Ni::read_clock() {
  clock_age_ = config_.clock_context ? kClockEvery : 0;
  now_ns_ = now_ns();
}

void Ni::run_callbacks() {
  CompletionQueue& queue = ports_.completions();
  lock();
  while (!queue.empty()) {
    Completion* const c = queue.pop();
    unlock();
    c->done(c->arg, &c->result);
    lock();
    ports_.recycle(c);
  }
  const bool handlers = portals_.handlers_due();
  ++callbacks_run_;
  unlock();
  if (handlers) portals_.run_handlers();
}

int Ni::wait(int milliseconds) {
  const uint64_t start = now_ns();
  const uint64_t deadline =
      milliseconds < 0 ? ~uint64_t{0} : start + uint64_t(milliseconds) * 1000000u;
  const uint64_t spin_until = start + uint64_t(params().spin_us) * 1000u;
  for (;;) {
    lock();
    const unsigned events = progress_locked();
    const bool due = events > 0 || callbacks_due();
    unlock();
    if (due) {
      run_callbacks();
      return int(std::max(events, 1u));
    }
    const uint64_t now = now_ns();
    if (now >= deadline) return 0;
    if (now < spin_until) continue;
    bool slept = true;
    {
      NiGuard guard(*this);
      if (missed(waiter())) return 1;
      if (!callbacks_due()) slept = sleep_ns(deadline - now, Wakers::here);
    }
    if (!slept && config_.lock) without_callers_lock(sched_yield);
  }
}

// The progress thread did something since this one last asked: a flag may have been set.
bool Ni::missed(Waiter& waiter) {
  const bool moved = waiter.seen_visits != visits_;
  waiter.seen_visits = visits_;
  return moved;
}

// Since this thread last backed off. The work of another thread's callback meanwhile may be what
// this one waits for.
bool Ni::changed(Waiter& waiter) {
  const bool called = waiter.seen_callbacks != callbacks_run_;
  waiter.seen_callbacks = callbacks_run_;
  return missed(waiter) || called;
}

// The back-off of a waiting thread after some polls without an event.
[[gnu::hot]] int Ni::rest(Waiter& waiter, Waits waits) {
  if (waiter.takes_turn()) {
    without_callers_lock(sched_yield);
    NiGuard guard(*this);
    ++counters_.yields;
    return 1;
  }
  if (waits_for_others_ && wait_policy_.mode == WaitMode::automatic && waits_for_others_())
    waits = Waits::looks;
  const bool patient = waits != Waits::looks;
  const uint64_t now = now_ns();
  if (int events;
      waiter.wants_turns(wait_policy_, now) && wait_in_turns(waiter, patient, now, &events))
    return events;
  uint64_t most = 0;
  const Waiter::Rest what = waiter.rest(wait_policy_, patient, now, thread_use, &most);
  if (what == Waiter::Rest::none) {
    if (config_.lock) without_callers_lock(sched_yield);  // or others never have it
    return 0;
  }
  lock();
  const bool told = (waits == Waits::any || !changed(waiter)) && !callbacks_due();
  const bool slept = what == Waiter::Rest::sleep && told && sleep_ns(most, wakers(waits));
  unlock();
  if (slept) {
    waiter.slept(thread_use);
  } else {
    timed_yield(waiter);
  }
  return 1;
}

void Ni::give_way() {
  if (!several_threads() || wait_policy_.mode == WaitMode::spin) return;
  thread_local const WaitingThread counted;
  const unsigned threads = waiting_threads.load(std::memory_order_relaxed);
  if (threads < 2 || threads <= wait_policy_.own || !waiter().gives_way()) return;
  const uint64_t before = now_ns();
  without_callers_lock(sched_yield);
  waiter().gave_way(now_ns() - before);
  NiGuard guard(*this);
  ++counters_.yields;
}

// The page is looked for when it may help, and again from time to time while no other job is on it.
Turns::View Ni::look_at_turns(uint64_t now) {
  if (now >= next_page_ns_ && turns_.alone()) {
    if (!turn_page_) turn_page_ = std::make_unique<TurnPage>(turn_page_name());
    if (turn_page_->look()) turns_.use(turn_page_->table());
    next_page_ns_ = now + (turn_page_->holds() ? kPageHolderNs : kPageNs);
  }
  const Turns::View view = turns_.look(now);
  if (view.whose != Turns::View::Whose::mine || view.begin_ns == last_turn_ns_) return view;
  last_turn_ns_ = view.begin_ns;
  if (counters_.turns++ == 0 && params().report)
    print_line(
        "torii report: rank %u: other jobs of this user wait for the same processors; "
        "they poll in turns",
        config_.self.rank);
  return view;
}

// False: turns do not help now.
bool Ni::wait_in_turns(Waiter& waiter, bool patient, uint64_t now, int* events) {
  if (!params().turns || config_.clock_context || config_.self.job == 0) return false;
  lock();
  const Turns::View view = look_at_turns(now);
  unlock();
  if (view.whose == Turns::View::Whose::nobodys) return false;
  const bool helped = progress_thread_ && progress_thread_->kind() == ProgressThread::Kind::full;
  const bool alone = !several_threads() && !helped;
  const Waiter::Rest what = waiter.rest_in_turns(view, patient && alone, now, thread_use);
  *events = what != Waiter::Rest::none;
  if (what == Waiter::Rest::none) {
    if (config_.lock) without_callers_lock(sched_yield);
    return true;
  }
  if (what == Waiter::Rest::yield) {
    yield();
    return true;
  }
  const timespec rest = {0, long(view.end_ns - now)};
  without_callers_lock([&] { nanosleep(&rest, nullptr); });
  waiter.slept(thread_use);
  rested(counters_.sleeps);
  return true;
}

// Reads the clock after a rest, and counts it.
inline uint64_t Ni::rested(uint64_t& count) {
  const uint64_t after = now_ns();
  NiGuard guard(*this);
  now_ns_ = after;
  ++count;
  return after;
}

inline uint64_t Ni::yield() {
  without_callers_lock(sched_yield);
  return rested(counters_.yields);
}

[[gnu::hot]] void Ni::timed_yield(Waiter& waiter) {
  const uint64_t before = now_ns();
  const uint64_t after = yield();
  waiter.yielded(wait_policy_, after, after - before, thread_use);
}

Peer* Ni::resolve(uint32_t nid, uint32_t pid, std::string* why) {
  Peer* peer = protocol_.find_process(nid, pid);
  if (peer && (peer->driver || peer->state != PeerState::up)) return peer;
  std::vector<std::byte> address;
  if (!directory_) {
    *why = format_text("process %u on node %u is unknown: nobody told its address", pid, nid);
    return nullptr;
  }
  if (!directory_->address(nid, pid, &address, why)) return nullptr;
  peer = nullptr;
  (void)connect(address, &peer, why);
  return peer;
}

bool Ni::rank_ids(uint32_t rank, uint32_t* nid, uint32_t* pid) {
  return directory_ && directory_->ids(rank, nid, pid);
}

Status Ni::connect(std::span<const std::byte> address, Peer** out, std::string* why) {
  const uint64_t before = counters_.peers_connected;
  const Status status = protocol_.connect(address, out, why);
  if (status == Status::unreachable) {
    *why += left_out_;
    for (const std::string& refused : refused_) *why += "; not open: " + refused;
  }
  if (wait_policy_.scarce && !yield_known_ && status == Status::ok) learn_of_yield((*out)->id);
  if (params().report && status == Status::ok && counters_.peers_connected != before) {
    std::string notes = (*out)->path_note;
    for (const std::string& refused : refused_) notes += " " + refused + ";";
    print_line("torii report: rank %u -> %s%s%s", config_.self.rank, describe_found(**out).c_str(),
               notes.empty() ? "" : "; refused:", notes.c_str());
  }
  return status;
}

// With the path, if it is known already.
std::string Ni::describe_found(const Peer& peer) const {
  const bool found = peer.paths && peer.paths->rails(peer.route);
  return found ? protocol_.describe_path(peer) : protocol_.describe(peer);
}

// One other process of the job and node shows how the launcher starts them all.
void Ni::learn_of_yield(const Identity& other) {
  const Identity& self = config_.self;
  if (other.job != self.job || other.os_pid == self.os_pid ||
      std::strcmp(other.host, self.host) != 0)
    return;
  yield_known_ = true;
  wait_policy_.apart = !yield_reaches(other.os_pid);
}

Status Ni::open_group(std::string_view name, std::span<Peer* const> members, Group** out,
                      std::string* why) {
  const Status status = groups_.open(name, members, out, why);
  if (params().report && status == Status::ok)
    print_line("torii report: rank %u: %s", config_.self.rank, groups_.describe(**out).c_str());
  return status;
}

bool Ni::start_progress_thread(ProgressThread::Kind kind) {
  const char* const name = kind == ProgressThread::Kind::full ? "progress" : "standby";
  lock_.use(NiLock::kind_for(users_, true));
  auto thread = std::make_unique<ProgressThread>(*this, kind);
  if (const int error = thread->start()) {
    lock_.use(NiLock::kind_for(users_, false));
    TORII_WARN(
        "the %s thread could not be started: %s; running without it (raise the limit of "
        "processes, ulimit -u)",
        name, strerror(error));
    return false;
  }
  progress_thread_ = std::move(thread);
  if (params().report)
    print_line("torii report: rank %u: a %s thread works while the application computes",
               config_.self.rank, name);
  return true;
}

bool Ni::stop_progress_thread() {
  if (!progress_thread_) return false;
  progress_thread_.reset();
  watch_thread_ = false;
  watched_ = watch_sleeper_;
  lock_.use(NiLock::kind_for(users_, false));
  return true;
}

void Ni::enable_threads() {
  if (users_ == NiLock::Users::threads) return;
  const auto kind = progress_thread_ ? progress_thread_->kind() : ProgressThread::Kind::full;
  const bool with_thread = stop_progress_thread();
  users_ = NiLock::Users::threads;
  lock_.use(NiLock::kind_for(users_, false));
  if (with_thread) start_progress_thread(kind);
}

// Callbacks stay queued: they are the application's to run. A remote read is done in small pieces,
// so that the application does not wait long if it comes back meanwhile.
Ni::Visit Ni::visit(uint32_t turns, std::vector<int>* descriptors, unsigned* events) {
  if (lock_.turns() != turns || !lock_.visit()) return Visit::refused;
  watch_thread_ = false;
  watched_ = watch_sleeper_;
  Visit result = Visit::refused;
  if (lock_.turns() == turns) result = sleeping_ ? Visit::asleep : stand_in(descriptors, events);
  lock_.leave();
  return result;
}

Ni::Visit Ni::stand_in(std::vector<int>* descriptors, unsigned* events) {
  read_clock();
  protocol_.limit_moves(kVisitMove);
  ports_.allow_prompts(false);
  directories_.allow_questions(false);
  unsigned sum = 0, found = 1;
  for (unsigned round = 0; found && round < kVisitRounds && !lock_.visitor_in_the_way(); ++round)
    sum += found = progress_locked();
  protocol_.limit_moves(~uint64_t{0});
  ports_.allow_prompts(true);
  directories_.allow_questions(true);
  counters_.thread_events += sum;
  visits_ += sum > 0;
  *events += sum;
  if (lock_.visitor_in_the_way()) return Visit::refused;
  if (found) return Visit::moved;
  if (!protocol_.arm(descriptors)) return sum ? Visit::moved : Visit::waiting;
  if (collectives_.due() < now_ns_ + kSoonNs) return Visit::waiting;
  if (!collectives_.arm()) return Visit::moved;
  ++counters_.thread_sleeps;
  polled_ = false;
  watch_thread_ = watched_ = true;
  return Visit::armed;
}

void Ni::close() {
  stop_progress_thread();
  lock();
  const uint64_t give_up = now_ns() + kCloseNs;
  imports_.push();
  collectives_.finish();
  while (!(protocol_.delivered() && collectives_.settled()) && now_ns() < give_up)
    if (!progress_locked()) sched_yield();
  protocol_.say_bye();
  while (!protocol_.drained() && now_ns() < give_up) progress_locked();
  unlock();
  if (params().report) report_counters();
}

void Ni::report_counters() {
  std::string line;
  for (size_t i = 0; i < kCounterCount; ++i)
    if (const uint64_t value = counter_value(counters_, i))
      line += format_text(" %s=%llu", kCounterInfo[i].name, static_cast<unsigned long long>(value));
  print_line("torii report: rank %u counters:%s", config_.self.rank, line.c_str());
}

void Ni::on_put(Arrival& arrival) {
  if (arrival.env.space == Space::tagged) return ports_.on_put(arrival);
  if (arrival.env.space == Space::memory) return exports_.on_put(arrival);
  portals_.on_put(arrival);
}

void Ni::on_get(Arrival& arrival) {
  if (arrival.env.space == Space::tagged)
    return protocol_.bad_frame(arrival.peer, "get from a tagged port", "port", arrival.env.index);
  if (arrival.env.space == Space::memory) return exports_.on_get(arrival);
  portals_.on_get(arrival);
}

void Ni::on_peer_down(Peer& peer, Status why) {
  if (!peer.fault.empty()) {
    TORII_ERROR("%s is cut off: %s; operations with it end with an error",
                protocol_.describe_path(peer).c_str(), peer.fault.c_str());
  } else if (why == Status::peer_dead) {
    TORII_ERROR("%s died; operations with it end with an error",
                protocol_.describe_path(peer).c_str());
  }
  collectives_.on_peer_down(peer, why);
  imports_.on_peer_down(peer);
  ports_.on_peer_down(peer, why);
  portals_.on_peer_down(peer, why);
  if (!peer_down_) return;
  torii_result_t result{};
  result.code = code_of(why);
  result.source = reinterpret_cast<torii_peer_t*>(&peer);
  ports_.completions().push(&Ni::tell_peer_down, this, result);
}

void Ni::tell_peer_down(void* self, const torii_result_t* result) {
  const Ni* ni = static_cast<const Ni*>(self);
  if (ni->peer_down_) ni->peer_down_(ni->peer_down_arg_, result->source, result->code);
}

}  // namespace torii
