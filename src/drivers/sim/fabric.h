// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// What the endpoints of one simulated fabric share. Private to drivers/sim.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "drivers/interfaces.h"
#include "drivers/random.h"
#include "drivers/sim/sim.h"

namespace torii {

class SimDriver;

struct SimKey {  // what travels as a memory key
  uint32_t owner;
  uint32_t slot;
  uint64_t tag;
};
static_assert(sizeof(SimKey) == kSimKeyBytes);

inline constexpr uint64_t kNoRegion = ~uint64_t{0};

// Something that happens to an endpoint at a certain time.
struct SimEvent {
  enum class Kind : uint8_t { frame, done, rma, atomic, down };

  Kind kind = Kind::done;
  Status status = Status::ok;  // done, down
  uint32_t peer_number = 0;    // frame: sender; rma: target; down: who went
  PeerId slot = kNoPeer;       // frame: the sender's peer whose queue it occupies
  uint64_t at_ns = 0;          // 0: at once, before anything else
  uint64_t salt = 0;           // order of events of the same time
  uint64_t serial = 0;         // and of the same salt
  uint64_t cookie = 0;
  uint64_t local = kNoRegion;    // region of the memory in `pieces`, by slot
  std::vector<std::byte> bytes;  // frame: head and copied body
  std::vector<iovec> pieces;     // frame: body in the sender's memory; rma: local memory
  bool write = false;            // rma
  SimKey key{};
  uint64_t offset = 0;
  uint64_t length = 0;
  RemoteAtomic atomic;

  // Heap order: the earliest event is the largest.
  bool operator<(const SimEvent& other) const {
    return std::tie(other.at_ns, other.salt, other.serial) < std::tie(at_ns, salt, serial);
  }
};

struct SimEndpoint {
  SimDriver* driver = nullptr;    // null before opening and after the end
  Status end = Status::ok;        // peer_closed or peer_dead once it has ended
  std::vector<SimEvent> inbox;    // a heap; empty once ended
  std::set<uint32_t> neighbours;  // endpoints that know this one, or that it has sent to
};

struct SimFabric::Net {
  explicit Net(const SimOptions& o);

  // Puts an event into an inbox. Frames to an endpoint that has ended go back to the sender as
  // done(cookie) with the reason.
  void post(uint32_t number, SimEvent event);
  void post_done(uint32_t number, uint64_t cookie, Status status);
  // An endpoint closes (peer_closed) or dies (peer_dead).
  void end(uint32_t number, Status status);
  // Gives a closing endpoint's frames on their way copies of their bodies, or drops a dead one's.
  void settle_frames_of(uint32_t number, bool died);
  void write_address(uint32_t number, std::byte* out) const;
  bool parse_address(std::span<const std::byte> address, uint32_t* number) const;
  uint64_t random_latency() {
    return random.between(options.latency_min_ns, options.latency_max_ns);
  }

  const SimOptions options;
  Random random;
  uint32_t tag;    // in every address, so that another fabric's is refused
  uint32_t known;  // endpoints that may be connected to
  uint32_t opened = 0;
  uint64_t now_ns = 0;
  uint64_t serial = 0;
  std::map<uint32_t, SimEndpoint> endpoints;         // made on first use
  std::map<std::string, std::set<uint32_t>> groups;  // name -> members
  std::deque<std::atomic<uint64_t>> guards;          // of regions that are or were guarded
};

// Appends the bytes of the pieces.
void sim_gather(std::vector<std::byte>& out, std::span<const iovec> pieces);

class SimDriver final : public Driver,
                        private Paths,
                        private Advice,
                        private RegisteredMemory,
                        private MappedMemory {
 public:
  SimDriver(SimFabric::Net& net, uint32_t number, const DriverEnv& env);
  ~SimDriver() override;

  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override;
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override;
  void disconnect(PeerId peer) override;
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override;
  void dereg(Region& region) override;
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override;
  void drop(uint32_t remote) override;
  void take(void* to, const std::byte* from, size_t bytes) override;
  Status alloc(uint64_t bytes, uint64_t alignment, void** base) override;
  void dealloc(void* base) override;
  Status put(const Rma& rma) override { return transfer(rma, kPut); }
  Status get(const Rma& rma) override { return transfer(rma, kGet); }
  Status atomic(const RemoteAtomic& atomic) override;
  Status join(std::span<const std::byte> group, PeerId* peer) override;
  void leave(PeerId peer) override;
  Status arm(int* fd) override;
  Paths* paths() override { return this; }
  Advice* advice() override { return this; }
  RegisteredMemory* registered_memory() override {
    return caps_.flags & kNeedsReg ? this : nullptr;
  }
  MappedMemory* mapped_memory() override { return caps_.flags & kGuard ? this : nullptr; }

  // For the fabric: the latest time of anything begun here, a frame of ours arrived or was lost,
  // and there is something in the inbox.
  uint64_t last_event_ns() const { return last_event_ns_; }
  void frame_left(PeerId slot);
  void wake();
  // No region has anything of this memory any more.
  void end_regions(const void* base, uint64_t bytes);
  // The card reaches memory that came with this region, or without one.
  bool reaches(uint64_t slot) const {
    return slot == kNoRegion || regions_.contains(static_cast<uint32_t>(slot));
  }

 private:
  Life life(PeerId peer) override;
  uint32_t long_max(PeerId) const override { return caps_.long_max; }
  bool near(PeerId peer, const void* at) const override;
  bool current(const Region& region) const override { return reaches(region.driver_data); }
  Status reach(uint32_t remote, Reach* out) override;

  using Word = std::atomic<uint64_t>;
  struct Peer {
    bool used = false;
    bool connected = false;  // false while frames taken before disconnect() are on their way
    uint32_t number = 0;     // endpoint, unless a group
    uint32_t in_flight = 0;
    std::string group;
  };
  struct Arrival {  // of the last frame to an endpoint
    uint64_t at_ns = 0;
    uint64_t salt = 0;
  };

  uint64_t local_slot(const Region* local, std::span<const iovec> pieces, bool copied) const;
  PeerId add_peer(uint32_t number, const std::string& group);
  void release_if_idle(PeerId slot);
  void send_one(const Tx& tx, Peer& peer);
  void post_frame(uint32_t number, SimEvent frame, Peer& peer);
  void deliver(SimEvent& event);
  void hand_up(PeerId from, std::span<const std::byte> frame);
  Status begin(Cap cap, uint32_t remote, SimEvent* event);
  Status post_later(SimEvent&& event);
  Status transfer(const Rma& rma, Cap cap);
  Status move(const SimEvent& event);
  std::byte* reachable(const SimEvent& event, uint32_t access, Status* status) const;
  Status update(const SimEvent& event);
  const Region* find_region(const SimKey& key) const;
  bool dead() const { return self_->driver != this; }

  SimFabric::Net& net_;
  SimEndpoint* self_;
  uint32_t number_;
  Sink& sink_;
  Counters* const counters_;
  DriverCaps caps_;
  std::vector<Peer> peers_;
  std::vector<PeerId> free_peers_;
  std::unordered_map<uint32_t, PeerId> by_number_;
  std::unordered_map<uint32_t, Arrival> last_arrivals_;  // by endpoint: to keep order
  std::unordered_map<uint32_t, Region> regions_;         // by slot
  std::unordered_map<uint32_t, SimKey> imports_;
  std::unordered_map<uint32_t, Word*> guards_;  // by slot, of guarded regions; the fabric's
  std::map<void*, uint64_t> allocations_;       // bytes by address
  uint32_t next_handle_ = 0;
  uint64_t last_event_ns_ = 0;
  std::vector<std::byte> card_;  // memory of the card, for one frame
  int event_fd_ = -1;
  bool armed_ = false;
};

}  // namespace torii
