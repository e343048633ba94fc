// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Probes and their answers: frames of one driver, without the link over it, which would repeat
// what gets lost. The driver finds the ways to a process, as it does in a job.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/tools/check/check_data.h"
#include "core/trust/key_pair.h"
#include "drivers/interfaces.h"

namespace torii::check {

// A probe: 48 bytes, then zeros up to `size`. All fields little-endian: kind (4), from (4), to (4),
// rail (4), number (4), size (4), sent_ns (8), 8 zeros, tag (8).
struct Probe {
  enum Kind : uint32_t { question = 0x31514354, answer = 0x31414354, to_all = 0x314d4354 };
  static constexpr size_t kBytes = kProbeBytes;

  uint32_t kind = 0;
  uint32_t from = kNobody;
  uint32_t to = kNobody;
  uint32_t rail = 0;     // the asking process's number of it
  uint32_t number = 0;   // of the question, for this pair
  uint32_t size = 0;     // of the question
  uint64_t sent_ns = 0;  // clock of the asking process

  void write(const Secret& secret, std::byte* out) const;
  // False: no probe, or made without the secret.
  static bool read(std::span<const std::byte> frame, const Secret& secret, Probe* out);
};

class Prober final : public Sink {
 public:
  static constexpr uint32_t kNumberMax = 1 << 16;  // questions to one process

  // The messages that came from another process, or went there and back.
  struct Rail {
    uint32_t sent = 0;
    uint32_t heard = 0;
    uint32_t longest = 0;           // of the questions that were answered
    std::vector<uint64_t> trip_ns;  // of the small questions
  };
  struct Peer {
    PeerId id = kNoPeer;
    std::string note;
    uint32_t next = 0;           // number of the next question
    std::vector<bool> answered;  // by number
    std::vector<bool> heard;     // the same, of the other's questions
    Rail rails[kRailsMax];
    bool ended = false;
    uint64_t heard_by_all_ns = 0;  // when its last datagram to all came here; 0: none has
  };

  // Null, with the reason in *why, if the driver does not open.
  static std::unique_ptr<Prober> open(const DriverInfo& info, const std::string& name,
                                      uint32_t local_peers, std::string* why);
  ~Prober();

  const DriverCaps& caps() const { return driver_->caps(); }
  // The ways to it that answer, as of Paths::rails(), and its addresses.
  uint32_t rails(uint32_t rank) {
    const Paths* const paths = driver_->paths();
    return paths ? paths->rails(peer(rank).id) : 1;
  }
  std::vector<PeerAddress> addresses(uint32_t rank) {
    const Paths* const paths = driver_->paths();
    return paths ? paths->addresses(peer(rank).id) : std::vector<PeerAddress>();
  }
  // How it is reached, of drivers that name no addresses: "rc_mlx5/mlx5_0:1"; else empty.
  std::string path(uint32_t rank) {
    const Paths* const paths = driver_->paths();
    return paths ? paths->text(peer(rank).id) : std::string();
  }
  const std::string& name() const { return name_; }
  bool network() const { return network_; }
  Bytes address() const;

  // Before anything else: who takes part.
  void begin(uint32_t self, uint32_t size, const Secret& secret);
  Status connect(uint32_t rank, std::span<const std::byte> address);
  Peer& peer(uint32_t rank) { return peers_[rank]; }
  uint32_t size() const { return static_cast<uint32_t>(peers_.size()); }
  // Sends a question of `size` bytes by that rail (kFirstRail: any). False: not now.
  bool ask(uint32_t rank, uint8_t rail, uint32_t size, uint64_t now_ns);
  // Joins what all processes of this check join; false with the reason in *why.
  bool join(std::string* why);
  void tell_all();
  // Takes what has arrived, and answers questions. Returns how much it was.
  unsigned poll(uint64_t now_ns) {
    now_ns_ = now_ns;
    return driver_->poll(now_ns, 64);
  }
  Status arm(int* fd) { return driver_->arm(fd); }

 private:
  void packet(PeerId from, std::span<const std::byte> frame) override;
  void done(uint64_t, Status) override {}
  void peer_down(PeerId id, Status status) override;
  bool send(PeerId to, uint8_t rail, const Probe& probe, uint32_t size);
  void answer(PeerId from, const Probe& question);
  void take_answer(const Probe& answer);

  std::string name_;
  bool network_ = false;
  Counters counters_;
  std::unique_ptr<KeyPair> keys_;  // of networks
  std::unique_ptr<Driver> driver_;
  uint32_t self_ = kNobody;
  Secret secret_{};
  std::vector<Peer> peers_;       // by rank
  std::vector<std::byte> zeros_;  // what probes are filled with
  uint64_t now_ns_ = 0;
  uint64_t cookie_ = 0;
  PeerId all_ = kNoPeer;  // the group
};

}  // namespace torii::check
