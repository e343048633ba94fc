// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The kit itself under test: drivers that lie, each in one way, and the case that must notice.
// Every such case must also pass with the same driver told honestly.
#include <fcntl.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "conformance/kit.h"
#include "conformance/liars.h"
#include "drivers/fault/fault.h"
#include "drivers/sim/sim.h"

namespace torii::kit {
namespace {

constexpr uint32_t kAll =
    kReliable | kPeerDown | kNeedsReg | kPut | kGet | kMulticast | kWait | kGuard | kAtomic;

// --- declarations ---------------------------------------------------------------------------
template <uint32_t kFlags>
struct Claims final : Honest {
  using Honest::Honest;
  bool begin() override {
    caps_.flags |= kFlags;
    if (kFlags & (kPut | kGet)) {
      caps_.key_bytes = 16;
      caps_.remote_max = 1 << 30;
    }
    return true;
  }
};
template <uint32_t kFlags>
struct Hides final : Honest {
  using Honest::Honest;
  bool begin() override {
    caps_.flags &= ~kFlags;
    if (!(caps_.flags & (kPut | kGet))) {
      caps_.key_bytes = 0;
      caps_.remote_max = 0;
      caps_.flags &= ~kNeedsReg;
    }
    return true;
  }
};
struct MorePieces final : Honest {
  using Honest::Honest;
  bool begin() override {
    caps_.pieces_max += 2;
    return true;
  }
  size_t send(std::span<const Tx> batch) override {
    Tx tx = batch[0];
    tx.piece_count = std::min(tx.piece_count, below_->caps().pieces_max);
    return below_->send({&tx, 1});
  }
};
struct ChangingCaps final : Honest {
  using Honest::Honest;
  size_t send(std::span<const Tx> batch) override {
    caps_.batch_max++;
    return below_->send(batch);
  }
};
struct LongAddress final : Honest {
  using Honest::Honest;
  void address(std::byte* out) const override {
    below_->address(out);
    out[caps_.address_bytes] = std::byte{1};
  }
};

// --- frames ---------------------------------------------------------------------------------
struct CopiesLater final : Honest {  // inline_max larger than what is copied
  using Honest::Honest;
  bool begin() override {
    caps_.inline_max = caps_.mtu;
    return true;
  }
  size_t send(std::span<const Tx> batch) override {
    Tx tx = batch[0];
    if (!tx.cookie) tx.cookie = kOwn;
    return below_->send({&tx, 1});
  }
  void done(uint64_t cookie, Status status) override {
    if (cookie != kOwn) upper_.done(cookie, status);
  }
  static constexpr uint64_t kOwn = ~uint64_t{0};
};
struct DoneTooEarly final : Honest {
  using Honest::Honest;
  size_t send(std::span<const Tx> batch) override {
    if (!below_->send(batch.first(1))) return 0;
    if (batch[0].cookie) early_.push_back(batch[0].cookie);
    return 1;
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    for (const uint64_t cookie : std::exchange(early_, {})) upper_.done(cookie, Status::ok);
    return below_->poll(now_ns, budget);
  }
  void done(uint64_t, Status) override {}
  std::vector<uint64_t> early_;
};
struct DoneBeforeArrival final : Honest {  // copies, and hands over many polls later
  using Honest::Honest;
  bool begin() override {
    caps_.flags |= kDelivers;
    caps_.lend_min = 16;
    return true;
  }
  size_t send(std::span<const Tx> batch) override {
    const Tx& tx = batch[0];
    if (!tx.lent) return below_->send(batch.first(1));
    if (!held_.bytes.empty()) return 0;
    held_ = {tx.peer, std::string(static_cast<const char*>(tx.head), tx.head_bytes)};
    held_.bytes.append(static_cast<const char*>(tx.pieces[0].iov_base), tx.body_bytes);
    early_.push_back(tx.cookie);
    return 1;
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    for (const uint64_t cookie : std::exchange(early_, {})) upper_.done(cookie, Status::ok);
    if (!held_.bytes.empty() && ++polls_ % 100 == 0) {
      Tx tx;
      tx.peer = held_.peer;
      tx.head = held_.bytes.data();
      tx.head_bytes = static_cast<uint32_t>(held_.bytes.size());
      if (below_->send({&tx, 1})) held_.bytes.clear();
    }
    return below_->poll(now_ns, budget);
  }
  struct Held {
    PeerId peer;
    std::string bytes;
  };
  Held held_{};
  unsigned polls_ = 0;
  std::vector<uint64_t> early_;
};
struct LendsTooBriefly final : Honest {  // reads lent bodies after done()
  using Honest::Honest;
  bool begin() override {
    caps_.lend_min = caps_.inline_max + 1;
    return true;
  }
  size_t send(std::span<const Tx> batch) override {
    const bool lent = batch[0].lent;
    Tx tx = batch[0];
    if (lent) tx.cookie = kOwn;
    if (!below_->send({&tx, 1})) return 0;
    if (lent) early_.push_back(batch[0].cookie);
    return 1;
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    for (const uint64_t cookie : std::exchange(early_, {})) upper_.done(cookie, Status::ok);
    return below_->poll(now_ns, budget);
  }
  void done(uint64_t cookie, Status status) override {
    if (cookie != kOwn) upper_.done(cookie, status);
  }
  static constexpr uint64_t kOwn = ~uint64_t{0};
  std::vector<uint64_t> early_;
};
struct DoneTwice final : Honest {
  using Honest::Honest;
  void done(uint64_t cookie, Status status) override {
    upper_.done(cookie, status);
    if (++count_ == 5) upper_.done(cookie, status);
  }
  int count_ = 0;
};
struct DoneForgotten final : Honest {
  using Honest::Honest;
  void done(uint64_t cookie, Status status) override {
    if (++count_ != 5) upper_.done(cookie, status);
  }
  int count_ = 0;
};
struct DoneInsideSend final : Honest {
  using Honest::Honest;
  size_t send(std::span<const Tx> batch) override {
    Tx tx = batch[0];
    const uint64_t cookie = tx.body_bytes <= below_inline() ? std::exchange(tx.cookie, 0) : 0;
    const size_t taken = below_->send({&tx, 1});
    if (taken && cookie) upper_.done(cookie, Status::ok);
    return taken;
  }
};
struct SendsWhatItRefuses final : Honest {
  using Honest::Honest;
  size_t send(std::span<const Tx> batch) override {
    const bool refuse = ++count_ % 10 == 0;
    const size_t taken = below_->send(batch.first(1));
    return refuse ? 0 : taken;
  }
  int count_ = 0;
};
struct CutsShortFrames final : Honest {
  using Honest::Honest;
  bool send_short(PeerId to, uint64_t a, uint64_t b, const void* body, uint32_t bytes) override {
    return Honest::send_short(to, a, b, body, std::min(bytes, 40u));
  }
};
struct SkipsTheFirst final : Honest {  // of a batch that does not fit
  using Honest::Honest;
  size_t send(std::span<const Tx> batch) override {
    if (batch.size() < 8) return below_->send(batch);
    return below_->send(batch.subspan(1, batch.size() - 1));
  }
};
struct NeverRefuses final : Honest {
  using Honest::Honest;
  size_t send(std::span<const Tx> batch) override {
    const Tx& tx = batch[0];
    std::string bytes(static_cast<const char*>(tx.head), tx.head_bytes);
    for (const iovec& p : std::span(tx.pieces, tx.piece_count))
      bytes.append(static_cast<const char*>(p.iov_base), p.iov_len);
    queue_.push_back({tx.peer, std::move(bytes)});
    if (tx.cookie) done_.push_back(tx.cookie);
    return 1;
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    for (const uint64_t cookie : std::exchange(done_, {})) upper_.done(cookie, Status::ok);
    return below_->poll(now_ns, budget);
  }
  std::deque<std::pair<PeerId, std::string>> queue_;
  std::vector<uint64_t> done_;
};
struct IgnoresBudget final : Honest {
  using Honest::Honest;
  unsigned poll(uint64_t now_ns, unsigned) override { return below_->poll(now_ns, 1000); }
};
struct ClaimsEvents final : Honest {
  using Honest::Honest;
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    return below_->poll(now_ns, budget) + 1;
  }
};
struct ReadsTheClock final : Honest {
  using Honest::Honest;
  unsigned poll(uint64_t, unsigned budget) override {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return below_->poll(static_cast<uint64_t>(now.tv_sec) * 1000000000, budget);
  }
};
struct OneThreadOnly final : Honest {
  using Honest::Honest;
  size_t send(std::span<const Tx> batch) override {
    return std::this_thread::get_id() == owner_ ? below_->send(batch) : 0;
  }
  std::thread::id owner_ = std::this_thread::get_id();
};

// --- peers ----------------------------------------------------------------------------------
struct TakesAnyAddress final : Honest {
  using Honest::Honest;
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override {
    return below_->connect(address.first(std::min<size_t>(address.size(), caps_.address_bytes)),
                           peer, why);
  }
};
struct GivesNoReason final : Honest {
  using Honest::Honest;
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override {
    const Status status = below_->connect(address, peer, why);
    why->clear();
    return status;
  }
};
struct OneNumberForAll final : Honest {
  using Honest::Honest;
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override {
    const Status status = below_->connect(address, peer, why);
    *peer = 0;
    return status;
  }
};
struct NamelessSenders final : Honest {
  using Honest::Honest;
  void packet(PeerId, std::span<const std::byte> frame) override { upper_.packet(kNoPeer, frame); }
};
struct OneNameForAll final : Honest {
  using Honest::Honest;
  void packet(PeerId, std::span<const std::byte> frame) override { upper_.packet(0, frame); }
};
struct ForgetsOnDisconnect final : Honest {  // holds each frame until poll()
  using Honest::Honest;
  size_t send(std::span<const Tx> batch) override {
    const Tx& tx = batch[0];
    if (!tx.body_bytes && !held_ && tx.cookie) {
      held_ = true;
      peer_ = tx.peer;
      cookie_ = tx.cookie;
      head_.assign(static_cast<const char*>(tx.head), tx.head_bytes);
      return 1;
    }
    return below_->send(batch);
  }
  void disconnect(PeerId peer) override {
    if (held_ && peer == peer_) lost_.push_back(cookie_);
    held_ = false;
    below_->disconnect(peer);
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    for (const uint64_t cookie : std::exchange(lost_, {})) upper_.done(cookie, Status::ok);
    Tx tx{peer_, static_cast<uint32_t>(head_.size()), head_.data(), nullptr, 0, 0, cookie_};
    if (held_ && below_->send({&tx, 1})) held_ = false;
    return below_->poll(now_ns, budget);
  }
  bool held_ = false;
  PeerId peer_ = kNoPeer;
  uint64_t cookie_ = 0;
  std::string head_;
  std::vector<uint64_t> lost_;
};
struct HidesDeaths final : Honest {
  using Honest::Honest;
  void peer_down(PeerId, Status) override {}
};
struct ReportsBusyPeersOnly final : Honest {
  using Honest::Honest;
  size_t send(std::span<const Tx> batch) override {
    const size_t taken = below_->send(batch);
    for (const Tx& tx : batch.first(taken)) busy_ |= tx.cookie != 0;
    return taken;
  }
  void peer_down(PeerId peer, Status status) override {
    if (busy_) upper_.peer_down(peer, status);
  }
  bool busy_ = false;
};
struct ReportsTwice final : Honest {
  using Honest::Honest;
  void peer_down(PeerId peer, Status status) override {
    upper_.peer_down(peer, status);
    upper_.peer_down(peer, status);
  }
};
struct AlwaysDead final : Honest {
  using Honest::Honest;
  void peer_down(PeerId peer, Status) override { upper_.peer_down(peer, Status::peer_dead); }
};
struct AlwaysClosed final : Honest {
  using Honest::Honest;
  void peer_down(PeerId peer, Status) override { upper_.peer_down(peer, Status::peer_closed); }
};
struct DoneAfterDown final : Honest {
  using Honest::Honest;
  void done(uint64_t cookie, Status status) override { late_.push_back({cookie, status}); }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    const unsigned count = below_->poll(now_ns, budget);
    for (const auto& [cookie, status] : std::exchange(late_, {})) upper_.done(cookie, status);
    return count;
  }
  std::vector<std::pair<uint64_t, Status>> late_;
};
struct LeaksDescriptors final : Honest {
  using Honest::Honest;
  bool begin() override { return ::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0; }
};

// --- the table ------------------------------------------------------------------------------
struct Lie {
  const char* name;
  std::unique_ptr<Honest> (*make)(const DriverEnv&);
  const char* noticed_by;
  uint32_t flags = kAll;    // what the sim driver below declares
  const char* faults = "";  // between the two
  bool registers = false;   // SimOptions::registers_local and tells_changes
};

template <typename T>
std::unique_ptr<Honest> make(const DriverEnv& env) {
  return std::make_unique<T>(env);
}
#define LIE(type) #type, make < type>

const Lie kLies[] = {
    {LIE(Claims<kReliable>), "reliable", kAll, "drop=1%"},
    {LIE(Claims<kReliable>), "reliable", kAll, "corrupt=1%"},
    {LIE(Claims<kReliable>), "reliable", kAll, "truncate=1%"},
    {LIE(Claims<kReliable>), "reliable", kAll, "duplicate=1%"},
    {LIE(Claims<kReliable>), "ordered", kAll & ~kReliable},
    {LIE(Claims<kReliable>), "ordered", kAll, "reorder=1%"},
    {LIE(Claims<kPeerDown>), "closing_is_reported", kAll & ~kPeerDown},
    {LIE(Claims<kPut>), "put_writes", kReliable},
    {LIE(Claims<kGet>), "get_reads", kReliable},
    {LIE(Claims<kMulticast>), "groups_reach_their_members", kAll & ~kMulticast},
    {LIE(Claims<kWait>), "sleepers_are_woken", kAll & ~kWait},
    {LIE(Claims<kGuard>), "guarded_keys_say_what_their_owner_says", kAll & ~kGuard},
    {LIE(Claims<kAtomic>), "atomics_change_words", kAll & ~kAtomic},
    {LIE(AddsTwice), "atomics_happen_once"},
    {LIE(IgnoresRights), "bad_atomics"},
    {LIE(Claims<kNeedsReg>), "caps_make_sense", kReliable},
    {LIE(Hides<kPut>), "undeclared_functions_answer_unsupported"},
    {LIE(Hides<kGet>), "undeclared_functions_answer_unsupported"},
    {LIE(Hides<kPut | kGet>), "undeclared_functions_answer_unsupported"},
    {LIE(Hides<kMulticast>), "undeclared_functions_answer_unsupported"},
    {LIE(Hides<kWait>), "undeclared_functions_answer_unsupported"},
    {LIE(Hides<kGuard>), "undeclared_functions_answer_unsupported"},
    {LIE(Hides<kAtomic>), "undeclared_atomics_answer_unsupported"},
    {LIE(MapsOtherMemory), "guarded_keys_say_what_their_owner_says"},
    {LIE(BelievesKeys), "guarded_keys_say_what_their_owner_says"},
    {LIE(NeverEndsGuards), "guarded_keys_say_what_their_owner_says"},
    {LIE(KeysLiveOn), "guarded_keys_end_with_their_region"},
    {LIE(Hides<kPeerDown>), "cookies_end_when_the_peer_closes"},
    {LIE(LargerMtu), "every_size"},
    {LIE(CutsLongFrames), "long_frames_arrive_whole"},
    {LIE(MorePieces), "gather"},
    {LIE(ChangingCaps), "caps_make_sense"},
    {LIE(LongAddress), "addresses_are_stable"},
    {LIE(CopiesLater), "short_bodies_are_copied"},
    {LIE(DoneTooEarly), "long_bodies_are_kept_until_done"},
    {LIE(LendsTooBriefly), "lent_bodies_are_kept_until_done"},
    {LIE(DoneBeforeArrival), "lent_bodies_are_delivered"},
    {LIE(TakesLater), "bodies_are_taken"},
    {LIE(TakesTooMuch), "bodies_are_taken"},
    {LIE(TakesNothing), "bodies_are_taken"},
    {LIE(DoneTwice), "every_cookie_is_done_once"},
    {LIE(DoneForgotten), "every_cookie_is_done_once"},
    {LIE(DoneInsideSend), "every_cookie_is_done_once"},
    {LIE(SendsWhatItRefuses), "reliable"},
    {LIE(SendsWhatItRefuses), "refused_frames_leave_no_trace"},
    {LIE(CutsShortFrames), "short_frames"},
    {LIE(SkipsTheFirst), "batches_are_taken_from_the_front"},
    {LIE(NeverRefuses), "refused_frames_leave_no_trace"},
    {LIE(IgnoresBudget), "poll_keeps_to_its_budget"},
    {LIE(ClaimsEvents), "poll_keeps_to_its_budget"},
    {LIE(ReadsTheClock), "reliable"},
    {LIE(OneThreadOnly), "threads_take_turns"},
    {LIE(DoneInsideSend), "taken_frames_outlive_disconnect"},
    {LIE(TakesAnyAddress), "bad_addresses_are_refused"},
    {LIE(GivesNoReason), "bad_addresses_are_refused"},
    {LIE(OneNumberForAll), "one_address_one_peer"},
    {LIE(NamelessSenders), "the_first_packet_names_its_sender"},
    {LIE(NamelessSenders), "upcalls_may_send"},
    {LIE(OneNameForAll), "everybody_to_everybody"},
    {LIE(ForgetsOnDisconnect), "taken_frames_outlive_disconnect"},
    {LIE(HidesDeaths), "closing_is_reported"},
    {LIE(HidesDeaths), "cookies_end_when_the_peer_dies"},
    {LIE(HidesDeaths), "deaths_of_quiet_peers_are_reported"},
    {LIE(ReportsBusyPeersOnly), "deaths_of_quiet_peers_are_reported"},
    {LIE(ReportsTwice), "closing_is_reported"},
    {LIE(AlwaysDead), "closing_is_reported"},
    {LIE(AlwaysClosed), "cookies_end_when_the_peer_dies"},
    {LIE(DoneAfterDown), "cookies_end_when_the_peer_dies"},
    {LIE(DeclaresDead), "lives_are_told_as_they_are"},
    {LIE(DeniesDeath), "lives_are_told_as_they_are"},
    {LIE(LeaksDescriptors), "closing_gives_everything_back"},
    {LIE(MovesNothing), "put_writes"},
    {LIE(MovesNothing), "get_reads"},
    {LIE(NeedsNoCookie), "put_writes"},
    {LIE(NeedsNoCookie), "get_reads"},
    {LIE(IgnoresBounds), "bad_puts"},
    {LIE(IgnoresBounds), "bad_gets"},
    {LIE(IgnoresRights), "bad_puts"},
    {LIE(TakesLongKeys), "bad_gets"},
    {LIE(KeysLiveOn), "keys_end_with_registration"},
    {LIE(DeregistersLater), "keys_end_with_registration"},
    {LIE(Hides<kNeedsReg>), "registration_makes_sense"},
    {LIE(ClaimsLocal), "registration_makes_sense"},
    {LIE(HidesLocal), "registration_makes_sense", kAll, "", true},
    {LIE(HidesThatThereIsNoRoom), "registrations_without_room_are_refused"},
    {LIE(HasNoRoomForEver), "registrations_without_room_are_refused"},
    {LIE(KeepsOldRegistrations), "memory_registered_again_is_read", kAll, "", true},
    {LIE(KeepsOldRegistrations), "memory_registered_again_is_written", kAll, "", true},
    {LIE(WritesAfterDereg), "memory_is_left_alone_after_dereg", kAll, "", true},
    {LIE(AlwaysCurrent), "changed_mappings_are_told", kAll, "", true},
    {LIE(NeverCurrent), "changed_mappings_are_told", kAll, "", true},
    {LIE(GivesOddAddresses), "allocated_memory_is_the_users"},
    {LIE(GivesMemoryTwice), "allocated_memory_is_the_users"},
    {LIE(PromisesAnything), "allocated_memory_is_the_users"},
    {LIE(ClearsWhatItGave), "allocated_memory_is_the_users"},
    {LIE(CallsEverythingNear), "allocated_memory_is_the_users"},
    {LIE(MovesNothing), "allocated_memory_is_read"},
    {LIE(DeallocHasNoEffect), "allocated_memory_is_read"},
    {LIE(MovesNothing), "allocated_memory_is_written"},
    {LIE(DeallocHasNoEffect), "allocated_memory_is_written"},
    {LIE(TakesAnyGroupName), "bad_group_names"},
    {LIE(LeaveHasNoEffect), "groups_reach_their_members"},
    {LIE(LeaveHasNoEffect), "groups_reach_their_members_in_the_end"},
    {LIE(GroupsHideTheSender), "groups_reach_their_members_in_the_end"},
    {LIE(GroupsLagBehind), "groups_keep_the_order"},
    {LIE(GroupsHideTheSender), "groups_keep_the_order"},
    {LIE(LeaveHasNoEffect), "lossy_groups_reach_their_members"},
    {LIE(LossyFramesFromNobody), "lossy_groups_reach_their_members"},
    {LIE(RepeatsLossyFrames), "lossy_batches_arrive"},
    {LIE(TakesAnyMembership), "bad_memberships_are_refused"},
    {LIE(NeverWakes), "sleepers_are_woken"},
    {LIE(OverlooksWork), "sleepers_are_woken"},
};

Rig rig_of(const Lie& lie) {
  auto fabric = std::make_shared<std::unique_ptr<SimFabric>>();
  Rig rig;
  rig.name = lie.name;
  rig.reset = [fabric, flags = lie.flags, registers = lie.registers] {
    *fabric = std::make_unique<SimFabric>(SimOptions{.flags = flags,
                                                     .inline_max = 256,
                                                     .registers_local = registers,
                                                     .tells_changes = registers});
  };
  rig.open = [fabric, lie](const DriverEnv& env, std::string*) -> std::unique_ptr<Driver> {
    auto liar = lie.make(env);
    FaultPlan plan;
    std::string why;
    const OpenBelow bare = [&](const DriverEnv& inner) { return open_sim(**fabric, inner); };
    const OpenBelow faulty = [&](const DriverEnv& inner) { return wrap_fault(bare, inner, plan); };
    const bool faults = *lie.faults;
    if (faults && parse_fault_plan(lie.faults, &plan, &why) != Status::ok) return nullptr;
    if (!liar->start(faults ? faulty : bare, env)) return nullptr;
    return liar;
  };
  rig.kill = [fabric](Driver& driver) {
    std::byte address[kAddressMax];
    driver.address(address);
    (*fabric)->kill(std::span(address).first(kSimAddressBytes));
  };
  rig.remap = [fabric](void* base, size_t bytes) { (*fabric)->remap(base, bytes); };
  return rig;
}

// Runs one case and counts what it finds; -1 if it does not apply.
int findings(const Lie& lie) {
  const std::vector<Case> cases = all_cases();
  const auto c = std::find_if(cases.begin(), cases.end(),
                              [&](const Case& x) { return x.name == std::string(lie.noticed_by); });
  if (c == cases.end()) return -1;
  const Rig rig = rig_of(lie);
  rig.reset();
  const uint32_t flags = Node(rig).caps().flags;
  if (why_not(*c, rig, flags)) return -1;
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter intercept(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
    run_case(*c, rig);
  }
  int failures = 0;
  for (int i = 0; i < results.size(); i++) failures += results.GetTestPartResult(i).failed();
  return failures;
}

TEST(Kit, EveryLieIsNoticed) {
  for (const Lie& lie : kLies) {
    EXPECT_GT(findings(lie), 0) << lie.name << " over " << lie.faults << " is not noticed by "
                                << lie.noticed_by;
  }
}

TEST(Kit, TheSameDriverToldHonestlyPasses) {
  for (Lie lie : kLies) {
    lie.make = make<Honest>;
    lie.flags = kAll;
    lie.faults = "";
    EXPECT_EQ(findings(lie), 0) << lie.noticed_by;
  }
}

// Each case is the one to notice at least one lie, so none is there for decoration. The cases
// with two processes need a driver that can do that.
TEST(Kit, EveryCaseNoticesSomething) {
  for (const Case& c : all_cases()) {
    const std::string name = c.name;
    if (name.starts_with("another_process")) continue;
    const bool used = std::any_of(std::begin(kLies), std::end(kLies),
                                  [&](const Lie& lie) { return name == lie.noticed_by; });
    EXPECT_TRUE(used) << name << " has no lie to prove it";
  }
}

}  // namespace
}  // namespace torii::kit
