// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The letters by which members of a group set up its collective operations: right, nearly right or
// arbitrary, from members on this node and on others, which may leave or die amid that. The set-up
// ends once, and so does each operation after it.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/fnv.h"
#include "core/base/little_endian.h"
#include "core/base/param.h"
#include "core/collective/group_team.h"
#include "core/ni/ni.h"
#include "drivers/sim/sim.h"
#include "fuzz/calling.h"
#include "fuzz/input.h"
#include "trust.h"

using namespace torii;
using fuzz::Calling;
using fuzz::require;
using team::Letter;
using team::LetterKind;

namespace {

constexpr uint32_t kMembersMost = 6;
constexpr uint32_t kFarRail = 1;  // index of the victim's driver for other nodes
constexpr size_t kCallsMost = 8;  // under way
constexpr int kStepsMost = 300;
constexpr int kRoundsAtTheEnd = 150;

using Bytes = std::vector<std::byte>;

bool same(const Bytes& one, std::span<const std::byte> other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end());
}

// Whatever is taken was written so.
void check_bodies(std::span<const std::byte> body) {
  team::Report report;
  if (team::read_report(body, &report))
    require(same(team::write_report(report), body), "a report is what it says");
  const size_t members = body.size() < team::kPlanHead ? 0 : (body.size() - team::kPlanHead) / 2;
  team::Plan plan;
  if (!team::read_plan(body, members, &plan)) return;
  require(plan.homes.size() == members, "a home for each");
  for (size_t i = 0; i < members; ++i)
    require(plan.homes[i] <= i && plan.homes[plan.homes[i]] == plan.homes[i], "a home");
  require(same(team::write_plan(plan), body), "a plan is what it says");
}

void check_parsers(std::span<const std::byte> bytes) {
  check_bodies(bytes);
  Letter letter;
  if (!team::read_letter(bytes, &letter)) return;
  require(same(team::write_letter(letter), bytes), "a letter is what it says");
  check_bodies(Bytes(letter.body.begin(), letter.body.end()));
}

void count_end(void* ends, const torii_result_t*) { ++*static_cast<int*>(ends); }
void no_word(void*, const torii_result_t*) {}

class World {
 public:
  explicit World(fuzz::Input& in)
      : in_(in), network_(network_options()), count_(2 + in.below(kMembersMost - 1)) {
    self_ = in_.byte() & 1 ? 0 : in_.below(count_);
    for (uint32_t i = 0; i < count_; ++i) node_of_.push_back(i == self_ ? 0 : in_.byte() % 3);
    for (uint32_t i = 0; i < count_; ++i) nis_.push_back(open(i));
    for (uint32_t i = 0; i < count_; ++i) {
      order_.push_back(connect(self_, i));
      known_.push_back(i == self_ ? nullptr : connect(i, self_));
    }
    for (uint32_t i = 0; i < count_; ++i)
      if (node_of_[i] == 0) near_members_.push_back(order_[i]);
    std::string why;
    require(victim().open_group("g", order_, &group_, &why) == Status::ok);
  }
  World(const World&) = delete;
  ~World() {
    nis_[self_].reset();
    for (const auto& [owner, memory] : segments_) nis_[owner]->allocations().free(memory);
  }

  void step() {
    switch (in_.byte() % 16) {
      case 0:
        prepare();
        break;
      case 1:
        call();
        break;
      case 2:
        scribble();
        break;
      case 3:
        disturb();
        break;
      case 4:
        leave(in_.below(count_), in_.byte() & 1);
        break;
      case 5:
      case 6:
      case 7:
        progress(uint64_t{1000} << in_.below(16));
        break;
      default:
        send_letter();
    }
  }

  void end() {
    for (uint32_t i = 0; i < count_; ++i) leave(i, true);
    for (int i = 0; i < kRoundsAtTheEnd; ++i) progress(20'000'000);
    require(prepared_ != Status::pending || told_ == 1, "the set-up is over");
    for (const Calling& one : calls_) require(one.ends == 1, "the operation is over");
    require(victim().ports().port(kTeamPort)->posted.size() == 0, "nobody is waited for");
    victim().collectives().close(*group_);
    victim().groups().close(group_);
    for (int i = 0; i < kRoundsAtTheEnd; ++i) progress(20'000'000);
  }

 private:
  static SimOptions network_options() {
    SimOptions options;
    options.flags = kWait | kReliable | kPeerDown;
    options.inline_max = options.mtu;
    return options;
  }

  Ni& victim() { return *nis_[self_]; }

  std::unique_ptr<Ni> open(uint32_t rank) {
    NiConfig config;
    config.self = own_identity();
    config.self.job = 77;
    config.self.rank = config.self.nid = rank;
    config.self.pid = 1;
    config.size = count_;
    config.clock = [](void* fabric) { return static_cast<SimFabric*>(fabric)->now_ns(); };
    config.clock_context = &network_;
    config.multicast_min = 0;
    auto ni = std::make_unique<Ni>(config);
    DriverEnv env;
    env.counters = &ni->counters();
    env.members = &test::everybody();
    env.clock = config.clock;
    env.clock_context = config.clock_context;
    const auto add = [&](const char* name, SimFabric& fabric) {
      env.sink = ni->protocol().next_sink();
      env.name = name;
      ni->protocol().add_driver(name, open_sim(fabric, env));
    };
    if (node_of_[rank] == 0) add("near", near_);
    if (node_of_[rank] != 0 || rank == self_) add("far", network_);
    return ni;
  }

  Peer* connect(uint32_t from, uint32_t to) {
    std::byte address[Protocol::kAddressBytes];
    const size_t n = nis_[to]->protocol().address(address, sizeof(address));
    Peer* out = nullptr;
    std::string why;
    require(nis_[from]->connect({address, n}, &out, &why) == Status::ok);
    return out;
  }

  void prepare() {
    if (asked_) return;
    asked_ = true;
    prepared_ = victim().collectives().prepare(*group_, count_end, &told_);
  }

  void call() {
    size_t pending = 0;
    for (const Calling& one : calls_) pending += one.ends == 0;
    if (pending >= kCallsMost) return;
    Calling& calling = calls_.emplace_back(in_, count_);
    calling.call.done = count_end;
    calling.call.arg = &calling.ends;
    if (victim().collectives().start(*group_, calling.call) != Status::pending) calling.ends = 1;
  }

  // Into the memory that another member gave for a segment.
  void scribble() {
    if (segments_.empty()) return;
    std::byte* const at = segments_[in_.below(static_cast<uint32_t>(segments_.size()))].second;
    const uint64_t end = team::Segment::bytes(count_, 0) / 8;
    const uint64_t word = in_.byte() & 3 ? in_.byte() : in_.take<uint64_t>();
    store_little<uint64_t>(at + in_.below(static_cast<uint32_t>(end)) * 8, word);
  }

  // Frames beside the letters.
  void disturb() {
    const uint32_t from = in_.below(count_);
    if (!can_speak(from)) return;
    const uint64_t number = in_.byte() & 7 ? group_->number : in_.take<uint64_t>();
    if (in_.byte() & 1) {
      nis_[from]->protocol().tell_joined(*known_[from], number, in_.byte() & 1);
    } else {
      const std::string text = in_.text(200);
      const auto bytes = std::as_bytes(std::span(text));
      send(from, kDatagramPort, number, {bytes.begin(), bytes.end()});
    }
  }

  void leave(uint32_t member, bool dies) {
    if (!can_speak(member)) return;
    gone_ |= 1u << member;
    // Memory that a process has mapped outlives its owner; the simulated one does not.
    const bool lends = std::any_of(segments_.begin(), segments_.end(),
                                   [&](const auto& one) { return one.first == member; });
    if (!dies && !lends) {
      nis_[member].reset();
      return;
    }
    std::byte address[kAddressMax];
    nis_[member]->protocol().drivers()[0]->address(address);
    SimFabric& fabric = node_of_[member] == 0 ? near_ : network_;
    fabric.kill({address, kSimAddressBytes});
  }

  void progress(uint64_t ns) {
    network_.advance(ns);
    near_.advance(ns);
    for (uint32_t i = 0; i < count_; ++i)
      if (i == self_ || can_speak(i)) torii_progress(reinterpret_cast<torii_ni_t*>(nis_[i].get()));
  }

  bool can_speak(uint32_t member) const { return member != self_ && !(gone_ >> member & 1); }

  void send(uint32_t from, unsigned port, uint64_t tag, Bytes bytes) {
    const Bytes& kept = sent_.emplace_back(std::move(bytes));
    Ports& ports = nis_[from]->ports();
    (void)ports.send(*ports.port(port), *known_[from], TORII_STANDARD, tag, 0,
                     Data(const_cast<std::byte*>(kept.data()), kept.size()), no_word, nullptr,
                     nullptr);
  }

  // One that the victim waits for, as a rule.
  void send_letter() {
    uint64_t tag = in_.byte() < 250 ? group_->number : in_.take<uint64_t>();
    uint32_t from = in_.below(count_);
    const MatchList& posted = victim().ports().port(kTeamPort)->posted;
    if (posted.size() > 0 && in_.byte() >= 8) {
      const MatchNode* wanted = posted.first();
      for (uint32_t skip = in_.byte() % posted.size(); skip > 0; --skip) wanted = wanted->next;
      tag = wanted->bits;
      const auto it = std::find_if(order_.begin(), order_.end(), [&](const Peer* peer) {
        return peer->number == wanted->source;
      });
      require(it != order_.end(), "a member is waited for");
      from = static_cast<uint32_t>(it - order_.begin());
    }
    if (can_speak(from)) send(from, kTeamPort, tag, letter(from, tag));
  }

  Bytes letter(uint32_t from, uint64_t tag) {
    const uint8_t how = in_.byte();
    Letter letter;
    letter.kind = LetterKind(1 + in_.byte() % team::kLetterKinds);
    letter.status = how < 16 ? Status(in_.byte() % 20) : Status::ok;
    letter.scarce = how & 1;
    letter.member = how & 2 ? in_.take<uint32_t>() : in_.below(count_);
    letter.order =
        how & 12 ? order_of(tag == group_->number ? order_ : near_members_) : in_.take<uint64_t>();
    const Bytes body = body_of(letter.kind, from, tag);
    letter.body = body;
    Bytes bytes = team::write_letter(letter);
    if (in_.byte() < 8)
      bytes[in_.below(static_cast<uint32_t>(bytes.size()))] ^= std::byte{in_.byte()};
    if (in_.byte() < 4) bytes.resize(in_.below(static_cast<uint32_t>(bytes.size() + 9)));
    return bytes;
  }

  Bytes body_of(LetterKind kind, uint32_t from, uint64_t tag) {
    switch (kind) {
      case LetterKind::offer:
        return key_of(from, tag);
      case LetterKind::report:
        return team::write_report(report_of(from));
      case LetterKind::plan:
        return team::write_plan(some_plan());
      default:
        break;
    }
    if (in_.byte() >= 8) return {};
    const std::string text = in_.text(300);
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }

  // Of memory that this member gives for a segment.
  Bytes key_of(uint32_t from, uint64_t tag) {
    const auto it = keys_.find({from, tag});
    if (it != keys_.end() || keys_.size() > 8) return it == keys_.end() ? Bytes{} : it->second;
    const uint32_t rights = in_.byte() < 8 ? in_.byte() % 8 : kMayRead | kMayWrite;
    const uint64_t ring = in_.byte() < 8 ? 0 : team::kRingBytes;
    const uint64_t bytes = team::Segment::bytes(count_, ring);
    Ni& owner = *nis_[from];
    void* memory = nullptr;
    Export* exported = nullptr;
    require(owner.allocations().alloc(bytes, team::kPageBytes, &memory) == Status::ok);
    team::Segment(static_cast<std::byte*>(memory), count_, ring).clear();
    segments_.emplace_back(from, static_cast<std::byte*>(memory));
    if (owner.exports().make(memory, bytes, rights, tag, &exported) != Status::ok) return {};
    return keys_[{from, tag}] = exported->key;
  }

  uint32_t home_of(uint32_t member) const {
    const auto it = std::find(node_of_.begin(), node_of_.end(), node_of_[member]);
    return static_cast<uint32_t>(it - node_of_.begin());
  }
  uint32_t some_frame() {
    if (in_.byte() < 16) return in_.take<uint32_t>();
    return static_cast<uint32_t>(
        multicast::GroupNode::frame_of(victim().protocol(), uint8_t{kFarRail}));
  }
  static const KeyPair& keys() {
    static std::string why;
    static const std::unique_ptr<KeyPair> drawn = KeyPair::draw(&why);
    require(drawn != nullptr, why.c_str());
    return *drawn;
  }

  team::Report report_of(uint32_t member) {
    team::Report report;
    report.home = in_.byte() >= 8 ? home_of(member) : in_.take<uint32_t>();
    report.frame = some_frame();
    report.driver = in_.byte() < 8 ? in_.take<uint64_t>() : fnv1a(std::string("far"));
    report.least = in_.byte() < 8 ? in_.take<uint64_t>() : 0;
    report.network = in_.byte() < 8 ? in_.take<uint64_t>() : 0;
    if (in_.byte() >= 8) report.key = keys().own();
    return report;
  }
  team::Plan some_plan() {
    team::Plan plan;
    plan.frame = some_frame();
    plan.least = in_.byte() < 8 ? in_.take<uint64_t>() : 0;
    if (in_.byte() >= 8) plan.key = keys().own();
    const uint32_t members = in_.byte() < 8 ? in_.below(2 * kMembersMost) : count_;
    for (uint32_t i = 0; i < members; ++i) {
      const bool right = i < count_ && in_.byte() >= 8;
      plan.homes.push_back(static_cast<uint16_t>(right ? home_of(i) : in_.below(count_ + 1)));
    }
    return plan;
  }

  fuzz::Input& in_;
  SimFabric network_, near_;
  const uint32_t count_;
  uint32_t self_ = 0;
  std::vector<uint32_t> node_of_;  // by member; the victim's is 0
  std::deque<Bytes> sent_;         // until all interfaces are closed
  std::deque<Calling> calls_;
  std::vector<std::unique_ptr<Ni>> nis_;
  std::vector<Peer*> order_;                               // the members as the victim knows them
  std::vector<Peer*> known_;                               // the victim as they know it
  std::vector<Peer*> near_members_;                        // those on the victim's node
  uint32_t gone_ = 0;                                      // a bit for each member
  std::vector<std::pair<uint32_t, std::byte*>> segments_;  // with their owners
  std::map<std::pair<uint32_t, uint64_t>, Bytes> keys_;    // by member and tag
  Group* group_ = nullptr;
  bool asked_ = false;
  Status prepared_ = Status::ok;
  int told_ = 0;
};

bool set_up() {
  std::string why;
  return param_set("log", "error", "fuzzer", &why) == Status::ok;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool ready = set_up();
  require(ready);
  const Bytes exact(reinterpret_cast<const std::byte*>(data),
                    reinterpret_cast<const std::byte*>(data) + size);
  check_parsers(exact);
  fuzz::Input in(data, size);
  World world(in);
  for (int steps = 0; steps < kStepsMost && !in.empty(); ++steps) world.step();
  world.end();
  return 0;
}
