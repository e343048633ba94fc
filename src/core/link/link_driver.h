// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Inside the link: its state, and who does what. link.cc opens, keeps time and ends peers;
// contact.cc holds who they are; sending.cc and receiving.cc the traffic.
#pragma once

#include <array>
#include <bit>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/inplace_vector.h"
#include "core/base/numbers.h"
#include "core/link/congestion.h"
#include "core/link/group_header.h"
#include "core/link/header.h"
#include "core/link/link.h"
#include "core/link/long_frames.h"
#include "core/link/sent_frames.h"
#include "core/link/speed.h"
#include "core/link/timer.h"
#include "core/trust/key_pair.h"

namespace torii::link {

inline constexpr int kByes = 8;  // nobody answers a bye, so it goes more than once
inline constexpr uint64_t kTriesPerDeadline = 16;  // the longest timeout leaves at least so many

// Frames that came before their turn: those of `expected` up to a window further, each in the slot
// of its number.
class Slots {
 public:
  struct Frame {
    Kind kind = Kind::data;
    Parts parts;
    std::vector<std::byte> payload;
  };
  bool any() const { return count_ != 0; }
  bool has(uint64_t number) const { return count_ && memory_->present[word(number)] & bit(number); }
  // One of `count` numbers from this one on?
  bool has_any(uint64_t number, uint32_t count) const {
    for (uint32_t i = 0; count_ && i < count; i++)
      if (has(number + i)) return true;
    return false;
  }
  // Numbers of further parts in it are present with it.
  void put(uint64_t number, Kind kind, const Parts& parts, std::span<const std::byte> payload) {
    if (!memory_) memory_ = std::make_unique<Memory>();
    memory_->frames[number % kWindow] = {kind, parts, {payload.begin(), payload.end()}};
    for (uint32_t i = 0; i < parts.count; i++)
      memory_->present[word(number + i)] |= bit(number + i);
    count_ += parts.count;
  }
  Frame take(uint64_t number) {
    Frame frame = std::exchange(memory_->frames[number % kWindow], {});
    for (uint32_t i = 0; i < frame.parts.count; i++)
      memory_->present[word(number + i)] &= ~bit(number + i);
    count_ -= frame.parts.count;
    return frame;
  }
  // Bit i: frame first + i is here. Numbers beyond the window are those of its begin.
  uint64_t bits(uint64_t first) const {
    if (!count_) return 0;
    const uint64_t low = memory_->present[word(first)], high = memory_->present[word(first + 63)];
    const unsigned shift = first % 64;
    return shift ? low >> shift | high << (64 - shift) : low;
  }
  void clear() {
    memory_.reset();
    count_ = 0;
  }

 private:
  struct Memory {
    std::array<uint64_t, kWindow / 64> present{};
    std::array<Frame, kWindow> frames;
  };

  static size_t word(uint64_t number) { return number % kWindow / 64; }
  static uint64_t bit(uint64_t number) { return uint64_t{1} << number % 64; }

  std::unique_ptr<Memory> memory_;  // null: never needed, or given back
  uint32_t count_ = 0;
};

constexpr size_t kBatchMax = 64;  // frames for the driver below at a time, whatever it advises

// About microseconds, for differences: 4 bytes for each of many rails.
inline uint32_t coarse(uint64_t ns) { return static_cast<uint32_t>(ns >> 10); }

// A way to a peer, for what is sent. All rails of a peer share its numbers.
struct Rail {
  Rail(RetransmitTimer first, uint32_t frames) : timer(first), window(frames) {}

  RetransmitTimer timer;
  CongestionWindow window;
  Speed speed;
  LongFrames long_frames;
  uint32_t flying = 0;        // frames under way by it
  uint32_t turns = 0;         // frames that were sent by it, also again
  uint32_t arrived = 0;       // the turn of the latest that is known to have arrived
  uint32_t arrived_left = 0;  // coarse() of when that one left
  uint32_t delivered = 0;     // frames that have arrived by it
  bool held_back = false;     // by the window, since something arrived
  uint64_t restarted_ns = 0;  // the timeout: at an arrival, or when it had passed
  uint64_t shunned_ns = 0;    // until then others are better: a timeout ended
};

// A process that has proved who it is, or one that is known by its address. It is remembered when
// it has ended, so that nobody can begin anew in its name with what was recorded.
struct Process {
  SealKey to;            // of frames that are sent to it
  SealKey from;          // of those that it sends
  TagKey to_driver{};    // of what the drivers below say to each other
  TagKey from_driver{};  // and what they hear
  PeerId peer = kNoPeer;
  bool ended = false;
};
struct HashOfKey {
  size_t operator()(const PublicKey& key) const { return load_little<uint64_t>(key.data()); }
};

struct Peer {
  static constexpr uint32_t kPromptAcks = 16;

  explicit Peer(const Rail& first) : rails(1, first) {}

  // Sending: frames first..first+sent.size()-1 are taken, those from fresh() on were never sent.
  SentFrames sent;
  uint64_t first = 0;
  uint64_t next = 0;              // the first that was never sent
  uint64_t asked = 0;             // frames before this one are covered by a question for an ack
  uint64_t awaited = 0;           // the frame before this one was the last with Tx::awaited
  uint32_t flying = 0;            // how many of `sent` are
  uint32_t lost = 0;              // how many were sent and have to go again
  std::vector<Rail> rails;        // by the number that the driver below gives them
  uint32_t answering = 1;         // those that it names, as bits
  bool has_gaps = false;          // the last ack named frames beyond a missing one
  bool refused = false;           // the core has more frames than were taken
  uint64_t heard_ns = 0;          // last packet of the peer's
  uint64_t waiting_since_ns = 0;  // last sign of life, or when the first of `sent` left
  // coarse(): for so long the peer has been polling without the first of `sent`, as its acks tell,
  // and when the last of them did
  uint32_t stuck = 0;
  uint32_t examined = 0;

  // Receiving: frames before `expected` were handed up; slot seq % kWindow holds those after it.
  bool heard = false;  // something that proved to be the peer's
  // coarse(): since then the driver below says that it has gone, and nothing came; 0: neither
  uint32_t gone_since = 0;
  uint64_t expected = 0;
  Slots slots;
  std::unique_ptr<std::vector<std::byte>> assembly;  // the first parts of a long frame

  Process* process = nullptr;  // in processes_; null: nothing may be sent or believed
  uint32_t greetings = 0;      // hellos, before something was heard
  uint32_t unheard_ms = 0;     // when the first one left
  uint64_t greeted_ns = 0;     // and the last one
  uint64_t words_sent = 0;     // frames without a number of `sent`
  uint64_t words_heard = 0;    // the number of the latest
  bool owes_ack = false;
  bool ack_at_once = false;  // asked for, or something is amiss
  bool probed = false;       // an ack of its own is to go, also if frames tell the same
  uint64_t owes_since_ns = 0;
  uint32_t prompt_acks = kPromptAcks;  // how many more go without waiting for company
  bool watched = false;                // probed when it is quiet
  bool listed = false;                 // in active_
  Status down = Status::ok;            // peer_dead or peer_closed
  bool reported = false;
};

// A lossy group that this process is in.
struct LossyGroup {
  PeerId id = kNoPeer;
  uint32_t number = 0;  // this process's
  uint32_t name = 0;    // GroupHeader::group
  uint64_t trace = 0;   // of the key: what is kept of it for ever
  bool left = false;    // by an upcall that was given one of its frames
  SealKey to;           // both by the one key of all members
  SealKey from;
  uint64_t sent = 0;             // frames
  std::vector<Numbers> numbers;  // of frames that have come, by sender; empty: it only sends
};

// A descriptor to sleep on that has an end.
class Alarm {
 public:
  Alarm() = default;
  Alarm(const Alarm&) = delete;
  ~Alarm();
  int set(int other, uint64_t ns);

 private:
  int timer_ = -1;
  int both_ = -1;
  int other_ = -1;
  bool timer_listed_ = false;
};

class LinkDriver final : public Decorator, private Paths, private Trust, private LossyGroups {
 public:
  explicit LinkDriver(const DriverEnv& env);
  ~LinkDriver() override;
  bool open(const OpenBelow& open_below, const DriverEnv& env);

  void address(std::byte* out) const override;
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override;
  void disconnect(PeerId peer) override;
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    return remote() ? below_->reg(base, bytes, access, out) : Status::unsupported;
  }
  void dereg(Region& region) override { below_->dereg(region); }
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* handle) override {
    return remote() ? below_->import(peer, key, handle) : Status::unsupported;
  }
  Status alloc(uint64_t bytes, uint64_t alignment, void** base) override {
    return remote() ? below_->alloc(bytes, alignment, base) : Status::unsupported;
  }
  Status put(const Rma& rma) override;
  Status get(const Rma& rma) override;
  Status atomic(const RemoteAtomic& atomic) override;
  Status join(std::span<const std::byte>, PeerId*) override { return Status::unsupported; }
  void leave(PeerId group) override;
  Status arm(int* fd) override;
  Paths* paths() override { return this; }
  LossyGroups* lossy_groups() override { return below_->lossy_groups() ? this : nullptr; }
  RegisteredMemory* registered_memory() override {
    return caps_.flags & kNeedsReg ? below_->registered_memory() : nullptr;
  }
  MappedMemory* mapped_memory() override {
    return caps_.flags & kGuard ? below_->mapped_memory() : nullptr;
  }

 private:
  std::string text(PeerId peer) const override;
  std::string trouble(PeerId peer) const override;
  uint32_t rails(PeerId peer) const override { return paths_ ? paths_->rails(peer) : 1; }
  Life life(PeerId peer) override { return paths_ ? paths_->life(peer) : Life::unknown; }
  uint32_t long_max(PeerId peer) const override;
  bool delivered() const override;
  std::vector<PeerAddress> addresses(PeerId peer) const override {
    return paths_ ? paths_->addresses(peer) : std::vector<PeerAddress>();
  }

  Status join_lossy(const LossyMember& membership, PeerId* id) override;
  uint64_t network() const override { return below_->lossy_groups()->network(); }

  bool tag(PeerId peer, std::span<const std::byte> text, uint64_t* out) const override;
  bool is_right(PeerId peer, std::span<const std::byte> text, uint64_t tag) const override;

  // Something with a cookie at the driver below: a frame's memory, or a put or get.
  struct Operation {
    PeerId peer;
    uint64_t cookie;  // the core's, for put, get and atomic
    FrameMemory* memory = nullptr;
  };

  void packet(PeerId from, std::span<const std::byte> frame) override;
  void packets(std::span<Packet> all) override;
  void done(uint64_t cookie, Status status) override;
  void peer_down(PeerId id, Status status) override;

  // contact.cc
  bool set_cipher();
  Process* process_of(const PublicKey& key);
  Process* join(PeerId id, const PublicKey& key);
  bool agrees(PeerId id, Peer& peer, const Hello& hello);
  bool introduces(Packet& packet, const Header& header);
  void refuse(std::span<const std::byte> frame, const Header& header, const PublicKey& key);

  bool remote() const { return caps_.flags & (kPut | kGet); }
  // The seal of frames that carry some of the core's.
  const Seal& seal() const { return cipher_ ? static_cast<const Seal&>(*cipher_) : tag_; }
  Cipher own_cipher() const { return cipher_ ? cipher_->cipher() : Cipher::none; }
  uint32_t long_max_over(uint32_t long_below) const;
  size_t parts_overhead() const { return kHeaderBytes + kPartsBytes + seal().growth(); }
  size_t part_max() const { return caps_.mtu - kPartsBytes; }
  Peer* find(PeerId id) const { return id < peers_.size() ? peers_[id].get() : nullptr; }
  Peer& peer_of(PeerId id);
  void look_at_clock();
  void advance(uint64_t now_ns);
  void watch(Peer& peer);
  void probe_quiet_peers();
  void ask_after_silent_peers();
  void learn_life(PeerId id, Peer& peer);
  void activate(PeerId id, Peer& peer);
  bool service(PeerId id, Peer& peer);
  unsigned tell_completed();
  void forget_strangers();
  void drop_sent(Peer& peer, Status status);
  void end(PeerId id, Peer& peer, Status status);
  void examine_oldest(Peer& peer, uint64_t first_before, Kind kind) const;
  void give_up(PeerId id, Peer& peer);
  bool report(PeerId id, Peer& peer);
  template <typename Access>
  Status transfer(const Access& access, Cap cap, Status (Driver::*call)(const Access&));

  // sending.cc
  static std::byte* append(const Tx& tx, std::byte* out, bool body = true);
  void fill(const Tx& tx, Sent* out);
  bool join(Peer& peer, const Tx& tx);
  void fill_long(const Tx& tx, Peer& peer);
  size_t numbers_of(const Tx& tx) const;
  void set_crc(Sent* frame) const;
  void read_lent(Sent* frame);
  bool leaves_at_once(Peer& peer);
  size_t send_to(PeerId id, std::span<const Tx> batch);
  Header header_for(const Peer& peer, Kind kind, uint64_t seq) const;
  // Frames before this one need not be looked at.
  static size_t first_waiting(const Peer& peer) {
    return peer.lost ? 0 : static_cast<size_t>(peer.next - peer.first);
  }
  // Frames of the window that leave in one frame of the driver's below.
  struct Group {
    size_t first;
    size_t count;
    uint64_t asked = 0;  // Peer::asked when it has left
  };
  // Frames that are handed to the driver below at a time; too much for the stacks of some threads.
  struct Outgoing {
    InplaceVector<Tx, kBatchMax> batch;
    InplaceVector<Group, kBatchMax> groups;
    InplaceVector<Sealing, kBatchMax> sealings;
    iovec pieces[kBatchMax];
    std::unique_ptr<std::byte[]> sealed;  // bodies, one behind the other; null: there is no cipher
  };
  bool starts_long(Peer& peer, const Rail& rail, size_t at) const;
  size_t room_for(Peer& peer, const Rail& rail, size_t at) const;
  void greet(PeerId id, Peer& peer);
  uint64_t greeting_rest(const Peer& peer) const;
  void send_waiting(PeerId id, Peer& peer, size_t most);
  size_t group_at(Peer& peer, Rail& rail, std::span<const size_t> indices) const;
  Sealing prepare(Peer& peer, const Rail& rail, const Group& group);
  size_t transmit(PeerId id, Peer& peer, uint8_t rail, std::span<const size_t> indices);
  void has_left(Peer& peer, uint8_t rail, const Group& group);
  bool send_control(PeerId id, Peer& peer, Kind kind, uint8_t rail, bool ask = false);
  void find_losses(PeerId id, Peer& peer);
  void find_overtaken(Peer& peer);
  bool time_out(Peer& peer, uint8_t number);
  void lost(Peer& peer, Sent& frame);
  bool ack_is_due(const Peer& peer) const;
  void send_ack(PeerId id, Peer& peer);
  static void acknowledgement_left(Peer& peer);

  // rails.cc
  Rail new_rail() const;
  void look_at_rails(PeerId id, Peer& peer);
  uint8_t rail_for(PeerId id, Peer& peer, size_t frames);
  void lose_all(Peer& peer, uint8_t rail);
  static size_t oldest_flying(Peer& peer, uint8_t rail);
  static size_t newest_flying(Peer& peer, uint8_t rail);

  uint64_t rest_of(PeerId id, Peer& peer);  // sleeping.cc

  // receiving.cc
  bool readable(const Packet& packet, Header* header);
  bool genuine(Packet& packet, Header* header, const uint64_t* tag,
               std::span<const std::byte>* payload);
  bool proves(std::span<const std::byte> frame, Header* header, const Process& process,
              const uint64_t* tag, std::span<const std::byte>* payload);
  void forget_later(PeerId from);
  void take_one(Packet& packet);
  void take_together(std::span<Packet> all);
  void take_genuine(Packet& packet, const Header& header, std::span<const std::byte> payload);
  bool measures(const Sent& sent) const;
  void acknowledged(Peer& peer, const Header& header, const MoreSack& more);
  void retire(Peer& peer, Sent& sent);
  void owe_ack(Peer& peer, bool at_once);
  static bool is_new(const Peer& peer, const Header& header);
  void received(PeerId from, Peer& peer, const Header& header, std::span<const std::byte> payload);
  void hand_up(PeerId from, Peer& peer, Kind kind, const Parts& parts,
               std::span<const std::byte> payload);
  void hand_up_several(PeerId from, std::span<const std::byte> payload);
  void hand_up_parts(PeerId from, Peer& peer, const Parts& parts,
                     std::span<const std::byte> payload);
  void hand_up_waiting(PeerId from, Peer& peer);

  // groups.cc
  // Frames that leave for a lossy group at a time. A body that is not copied stays where it is.
  struct LossyOutgoing {
    InplaceVector<Tx, kBatchMax> batch;
    InplaceVector<Sealing, kBatchMax> sealings;
    iovec pieces[kBatchMax];
    std::byte heads[kBatchMax][kHeadMax];
    std::unique_ptr<std::byte[]> bodies;    // copies, or what was encrypted
    std::unique_ptr<std::byte[]> gathered;  // of one, before it is encrypted
  };
  LossyGroup* lossy_group(PeerId id) const {
    for (const auto& group : lossy_groups_)
      if (group->id == id) return group.get();
    return nullptr;
  }
  bool set_keys(const LossyMember& membership, LossyGroup* group, LossyMember* below) const;
  Sealing prepare_lossy(const Tx& tx, const LossyGroup& group, uint64_t number, Tx* out);
  size_t send_lossy(LossyGroup& group, std::span<const Tx> batch);
  void take_lossy(LossyGroup& group, std::span<Packet> all);
  void take_lossy(LossyGroup& group, Packet& packet, const GroupHeader& header,
                  const uint64_t* tag);

  Counters& counters_;
  Paths* paths_ = nullptr;  // of the driver below; null: it has none
  const uint64_t deadline_ns_;
  bool whole_tags_;
  const TagSeal tag_;
  std::unique_ptr<CipherSeal> cipher_;   // null: there are only tags
  std::unique_ptr<std::byte[]> opened_;  // of a cipher: the payload of one frame
  size_t opened_max_ = 0;
  const uint64_t ack_delay_ns_;     // longest that an acknowledgement waits for a frame to go with
  const uint64_t greeting_gap_ns_;  // from the first hello to the second
  const RetransmitTimer first_timer_;
  // The link's own clock stands still while nobody polls or sends: answers that wait in the driver
  // below must not count as silence.
  uint64_t now_ns_ = 0;
  uint64_t advanced_ns_ = 0;  // up to this time of the outer clock
  uint64_t (*const clock_)(void*);
  void* const clock_context_;
  bool looked_at_clock_ = false;  // in this poll()
  uint64_t polled_ns_ = 0;        // when this poll() began
  uint64_t silence_ns_ = 0;       // since the one before, unless a thread slept on the driver below
  bool listening_ = false;        // a thread may sleep on it
  uint32_t disconnected_ = 0;     // how often disconnect() was called
  std::unique_ptr<KeyPair> own_keys_;  // if the environment has none
  const Keys* keys_;
  Members* const members_;
  const std::string purpose_;  // of the keys
  std::unordered_map<PublicKey, Process, HashOfKey> processes_;
  size_t tried_ = 0;     // of those, how many were neither connected nor proved who they are
  bool probes_ = false;  // the driver below does not report dead peers
  uint64_t next_probes_ns_ = 0;
  uint64_t next_lives_ns_ = 0;
  uint64_t next_refusal_ns_ = 0;
  bool refusal_told_ = false;
  unsigned budget_ = 0;                       // of the present poll(), for frames that were waiting
  std::vector<std::unique_ptr<Peer>> peers_;  // by PeerId; null: nothing was ever exchanged
  uint32_t window_ = kWindow;                 // most frames under way to a peer
  size_t batch_ = 1;                          // frames for the driver below at a time
  std::vector<PeerId> active_;                // peers that service() has to look at
  std::vector<PeerId> strangers_;             // numbers below that nobody genuine has
  std::vector<std::pair<uint64_t, Status>> completed_;  // done() for the next poll
  unsigned told_ = 0;                                   // of them, in this poll
  std::vector<std::pair<uint64_t, Status>> spare_;      // its memory
  FramePool pool_;
  std::unique_ptr<std::vector<std::byte>> spare_assembly_;  // empty, with memory
  Alarm alarm_;
  std::unordered_map<uint64_t, Operation> operations_;
  uint64_t next_operation_ = 1;
  std::vector<std::pair<PeerId, std::string>> troubles_;  // see Paths::trouble()
  const std::unique_ptr<Outgoing> outgoing_ = std::make_unique<Outgoing>();
  std::vector<std::unique_ptr<LossyGroup>> lossy_groups_;
  std::vector<std::unique_ptr<LossyGroup>> left_groups_;  // until the next poll()
  std::vector<uint64_t> group_traces_;                    // of all that were ever joined
  std::unique_ptr<LossyOutgoing> lossy_outgoing_;         // null: there was no group yet
};

}  // namespace torii::link
