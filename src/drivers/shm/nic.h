// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The `shm` driver: sends and receives frames, and chooses the path of each put, get and atomic
// operation. README.md has the map of the classes that do the rest.
//
// send() and poll() use no lock, no allocation and no system call while both sides are awake.
#pragma once

#include <string>
#include <vector>

#include "drivers/interfaces.h"
#include "drivers/shm/arena.h"
#include "drivers/shm/peers.h"
#include "drivers/shm/remote.h"
#include "drivers/shm/requests.h"
#include "drivers/shm/splits.h"
#include "drivers/shm/switch_points.h"

namespace torii {

class ShmDriver final : public Driver,
                        private Paths,
                        private Advice,
                        private MappedMemory,
                        private ShortFrames {
 public:
  explicit ShmDriver(const DriverEnv& env);
  ~ShmDriver() override;
  ShmDriver(const ShmDriver&) = delete;
  ShmDriver& operator=(const ShmDriver&) = delete;

  // Makes the segment; false with the reason and the remedy in *why.
  bool start(std::string* why);

  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override;
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override {
    return peers_.connect(address, peer, why);
  }
  void disconnect(PeerId peer) override { peers_.disconnect(peer); }
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    return peers_.attaches() ? exports_.reg(base, bytes, access, out) : Status::unsupported;
  }
  void dereg(Region& region) override { exports_.dereg(region); }
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override {
    return peers_.attaches() ? remote_.import(peer, key, remote) : Status::unsupported;
  }
  void drop(uint32_t remote) override { remote_.drop(remote); }
  Status alloc(uint64_t bytes, uint64_t alignment, void** base) override {
    return peers_.attaches() ? exports_.alloc(bytes, alignment, base) : Status::unsupported;
  }
  void dealloc(void* base) override { exports_.dealloc(base); }
  Status put(const Rma& rma) override;
  Status get(const Rma& rma) override;
  Status atomic(const RemoteAtomic& atomic) override;
  Status arm(int* fd) override;
  Paths* paths() override { return this; }
  Advice* advice() override { return this; }
  MappedMemory* mapped_memory() override { return caps_.flags & kGuard ? this : nullptr; }
  ShortFrames* short_frames() override { return this; }

 private:
  using Peer = shm::Peer;

  uint32_t long_max(PeerId peer) const override;
  bool near(PeerId peer, const void* at) const override {
    return exports_.allocated(at) && peers_[peer].direct;
  }
  bool sooner_sent(uint32_t remote) const override;
  void look(PeerId peer) override;
  Status reach(uint32_t remote, Reach* out) override { return remote_.reach(remote, out); }
  bool send_short(PeerId peer, uint64_t word0, uint64_t word1, const void* body,
                  uint32_t body_bytes) override;

  [[gnu::noinline]] bool send_tx(const Tx& tx);

  bool quiet(uint64_t now_ns) const;
  bool arrives() const;
  [[gnu::noinline]] unsigned poll_all(uint64_t now_ns, unsigned budget);
  bool goes_on(unsigned frames, unsigned most) const;
  unsigned drain(Peer& peer, unsigned most);
  unsigned poll_idle(unsigned budget);
  unsigned report_done();
  void end_peers();

  Status transfer(const Rma& rma, bool write);
  bool may_coalesce(const Rma& rma, const shm::Import& import, const Peer& peer, bool write) const;
  bool may_request(const Rma& rma, const shm::Import& import, const Peer& peer, bool write,
                   bool first) const;
  [[gnu::noinline]] Status transfer_alone(const Rma& rma, const shm::Import& import, Peer& peer,
                                          bool write);

  Sink& sink_;
  Counters& counters_;
  const shm::SwitchPoints points_;
  shm::Peers peers_;
  Peer* draining_ = nullptr;       // whose frames are being handed up
  std::vector<uint64_t> cookies_;  // frames taken whose done() is due
  std::vector<uint64_t> reporting_;
  DriverCaps caps_;
  bool side_by_side_;        // each process of the job has a processor, and attach works
  bool crowded_ = false;     // between the last two polls there were several: so there will be now
  unsigned since_poll_ = 0;  // puts and gets that are not requested if they are alone
  shm::Exports exports_;
  shm::RemoteMemory remote_;
  shm::Requests requests_;
  shm::Coalescer coalescer_;
  shm::Splits splits_;
};

}  // namespace torii
