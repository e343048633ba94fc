// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A simulated card, as its vendor's library would offer it: a queue for frames to each peer, remote
// memory access, one queue of events. Endpoints and groups have numbers on the fabric. The driver
// `sim` is made of this.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "drivers/fabric/fabric.h"
#include "drivers/interfaces.h"

namespace torii {

struct SimItem;
struct SimEndpoint;

struct SimKey {  // what travels as a memory key
  uint32_t owner;
  uint32_t slot;
  uint64_t tag;  // random: forged keys, and those of regions that are gone, are recognized
};
static_assert(sizeof(SimKey) == kSimKeyBytes);

inline constexpr uint64_t kNoRegion = ~uint64_t{0};

struct SimFrame {
  uint32_t to = 0;     // endpoint or group
  uint32_t queue = 0;  // the one that it waits in
  uint64_t cookie = 0;
  std::vector<std::byte> bytes;  // head and copied body
  std::vector<iovec> pieces;     // the rest, which the card reads until `done`
  uint64_t local = kNoRegion;    // region of the memory in `pieces`
};

struct SimEvent {
  enum class Kind : uint8_t { frame, done, down };
  Kind kind = Kind::done;
  Status status = Status::ok;        // done, down
  uint32_t from = 0;                 // frame: sender, or lossy group; down: who has ended
  uint64_t cookie = 0;               // done
  std::span<const std::byte> frame;  // the card's until give_back()
};

// Appends the bytes of the pieces.
void sim_gather(std::vector<std::byte>& out, std::span<const iovec> pieces);

// A function of what the options do not declare answers `unsupported`.
class SimCard final : public Advice, public RegisteredMemory {
 public:
  SimCard(SimFabric::Net& net, uint32_t number);
  ~SimCard();  // leaves the fabric in good order
  SimCard(const SimCard&) = delete;
  SimCard& operator=(const SimCard&) = delete;

  const SimOptions& options() const;
  uint32_t number() const { return number_; }
  uint32_t known_endpoints() const;
  void address(std::byte* out) const;
  // Whose address this is. `invalid`: nobody's; peer_closed, peer_dead: it has ended.
  Status find(std::span<const std::byte> address, uint32_t* number) const;
  // From now on each hears of the other's end.
  void meet(uint32_t number);  // nothing to do for a group
  Life life(uint32_t number) const;

  // --- frames -----------------------------------------------------------------------------
  bool has_room(uint32_t queue);
  bool is_empty(uint32_t queue) const { return queue >= queued_.size() || !queued_[queue]; }
  void send(SimFrame&& frame);  // if has_room() has just said so
  // The next event that is due; false: none is.
  bool next(uint64_t now_ns, SimEvent* event);
  void give_back();  // the frame of the last event
  // Copies at once. Returns for how many bytes the card did it: for those in its own memory.
  size_t copy(void* to, const std::byte* from, size_t bytes) const;
  Status join(std::span<const std::byte> name, uint32_t* group);  // 1 to 16 bytes
  Status join_lossy(const LossyMember& membership, uint32_t* group);
  void leave(uint32_t group);
  static bool is_lossy(uint32_t number);
  Status arm(int* fd);  // as Driver::arm()

  // --- memory -----------------------------------------------------------------------------
  Status reg(Region* region);  // gives it key and driver_data
  void dereg(uint64_t region);
  bool current(const Region& region) const override { return reaches(region.driver_data); }
  Status move(const Rma& rma, const SimKey& key, bool write);
  Status atomic(const RemoteAtomic& atomic, const SimKey& key);
  Status reach(const SimKey& key, Reach* out) const;
  Status alloc(uint64_t bytes, uint64_t alignment, void** base);
  void dealloc(void* base);
  bool near(PeerId peer, const void* at) const override;  // memory of alloc()

 private:
  friend struct SimFabric::Net;
  friend class SimFabric;
  using Word = std::atomic<uint64_t>;
  struct Arrival {  // of the last frame to an endpoint
    uint64_t at_ns = 0;
    uint64_t salt = 0;
  };

  bool dead() const;
  bool reaches(uint64_t region) const {
    return region == kNoRegion || regions_.contains(static_cast<uint32_t>(region));
  }
  void wake();
  void frame_left(uint32_t queue) { queued_[queue]--; }
  uint64_t leave_port(size_t bytes);
  uint64_t due_ns() const;
  void post(uint32_t number, SimItem item);
  void post_lossy(uint32_t number, SimItem item);
  void receive(SimItem& item, SimEvent* event);
  void check_local(uint64_t region, std::span<const iovec> pieces) const;
  Status post_later(SimItem&& item);
  const Region* find_region(const SimKey& key) const;
  std::byte* reachable(const SimItem& item, uint32_t access, Status* status) const;
  Status carry_out(const SimItem& item) const;
  Status update(const SimItem& item) const;
  // No region has anything of this memory any more.
  void end_regions(const void* base, uint64_t bytes);
  void end_guard(uint32_t slot);

  SimFabric::Net& net_;
  SimEndpoint* const self_;
  const uint32_t number_;
  std::vector<uint32_t> queued_;                         // frames on their way, by queue
  std::unordered_map<uint32_t, Arrival> last_arrivals_;  // by endpoint: to keep order
  std::unordered_map<uint32_t, Region> regions_;         // by slot
  std::unordered_map<uint32_t, Word*> guards_;  // by slot, of guarded regions; the fabric's
  std::map<void*, uint64_t> allocations_;       // bytes by address
  uint32_t next_slot_ = 0;
  std::set<uint32_t> lossy_;         // groups that it is in
  uint64_t last_event_ns_ = 0;       // latest time of anything begun here
  uint64_t port_free_ns_ = 0;        // when the last frame has left
  uint64_t served_ns_ = 0;           // when the last one that arrived was done with
  std::vector<std::byte> received_;  // the frame of the last event
  std::vector<std::byte> memory_;    // the card's, for one frame
  int event_fd_ = -1;
  bool armed_ = false;
};

}  // namespace torii
