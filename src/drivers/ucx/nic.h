// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One endpoint: a worker of UCX, the peers it knows, and what is under way. contact.cc makes
// contact and ends it.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "drivers/interfaces.h"
#include "drivers/ucx/wire.h"
#include "drivers/ucx/worker.h"

namespace torii::ucx {

class UcxDriver final : public Driver, private Paths, private Advice {
 public:
  UcxDriver(const DriverEnv& env, const std::string& transports);
  ~UcxDriver() override;
  bool open(std::string* why);

  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override { std::ranges::copy(own_, out); }
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override;
  void disconnect(PeerId peer) override { peers_[peer]->connected = false; }
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override;
  void dereg(Region& region) override;
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override;
  void drop(uint32_t remote) override;
  Status put(const Rma& rma) override { return move(rma, kPut); }
  Status get(const Rma& rma) override { return move(rma, kGet); }
  Status arm(int* fd) override;
  Paths* paths() override { return this; }
  Advice* advice() override { return has_memory_ ? this : nullptr; }

 private:
  static constexpr uint32_t kMtu = 8128;  // with the prefix less than a piece of UCX's, but for ud

  struct Peer {
    UcxDriver* driver = nullptr;
    PeerId id = kNoPeer;
    PublicKey key{};
    ucp_ep_h ep = nullptr;
    bool connected = false;   // by the core, or it was heard
    bool greeted = false;     // it was sent a hello
    bool heard = false;       // its hello has come: it takes frames
    bool down = false;        // its end was reported
    Status end = Status::ok;  // what peer_down() will say or has said
    uint32_t open = 0;        // messages that UCX keeps
    uint32_t moves = 0;       // puts and gets under way
    uint32_t number = 0;      // of this process at the peer
    uint32_t seq = 0;         // of the next message to it
    uint32_t expected = 0;    // of the next one from it
    std::string path;         // as text() told it when the peer was heard
  };
  // A message that UCX was given and may keep.
  struct Message {
    Peer* peer = nullptr;
    std::array<std::byte, sizeof(Prefix) + kMtu> bytes;
  };
  // A put or a get.
  struct Move {
    Peer* peer = nullptr;
    uint64_t cookie = 0;
    uint32_t open = 0;  // requests of UCX's
    Status status = Status::ok;
  };
  struct Import {
    PeerId peer = kNoPeer;
    ucp_rkey_h rkey = nullptr;
    KeyHead key;
  };

  std::string text(PeerId peer) const override;
  uint32_t long_max(PeerId) const override { return 0; }
  bool delivered() const override { return open_ == 0; }

  // nic.cc
  Message* new_message(Peer& peer);
  void recycle(Message* message);
  void post(Message* message, size_t size);
  static void on_sent(void* request, ucs_status_t status, void* message);
  static ucs_status_t on_message(void* driver, const void*, size_t, void* data, size_t size,
                                 const ucp_am_recv_param_t* param);
  bool accept(std::span<const std::byte> message);
  void hand_up(PeerId from, std::span<const std::byte> frame);
  void tell_done();
  Status move(const Rma& rma, Cap cap);
  static void on_moved(void* request, ucs_status_t status, void* move);

  // contact.cc
  Peer* find(PeerId id) { return id < peers_.size() ? peers_[id].get() : nullptr; }
  Peer* meet(const PublicKey& key, std::span<const std::byte> address, ucs_status_t* status);
  void greet(Peer& peer);
  void greet_again();
  bool make_tag(std::span<const std::byte> hello, const PublicKey& key, bool own, std::byte* out);
  bool take_hello(std::span<const std::byte> message);
  static void on_error(void* peer, ucp_ep_h ep, ucs_status_t status);
  void end(Peer& peer, Status why);
  void report_ends();
  void close_endpoint(Peer& peer);
  void say_bye();

  Sink& sink_;
  Counters& counters_;
  const std::string transports_;
  const bool has_memory_;  // that peers' cards reach
  const Keys* const keys_;
  Members* const members_;
  const std::string purpose_;
  DriverCaps caps_;
  std::vector<std::byte> own_;                // address
  std::vector<std::unique_ptr<Peer>> peers_;  // by PeerId
  std::map<PublicKey, PeerId> by_key_;
  std::unique_ptr<Message> spare_;
  std::deque<std::pair<PeerId, std::vector<std::byte>>> kept_;  // came when enough was handed up
  std::map<uint32_t, Import> imports_;
  uint32_t next_import_ = 0;
  std::vector<std::pair<uint64_t, Status>> done_, telling_;  // for the next poll; in this one
  uint32_t open_ = 0;                                        // messages, puts and gets under way
  uint64_t now_ns_ = 0;
  uint64_t greet_at_ns_ = ~uint64_t{0};  // peers that have not been heard, the next time
  unsigned events_ = 0;                  // of this round
  unsigned budget_ = 0;                  // of it: so many, then frames wait for the next one
  bool ends_ = false;                    // there are some to be reported
  bool closing_ = false;
  Worker ucx_;  // ends first: its callbacks use all of these
};

}  // namespace torii::ucx
