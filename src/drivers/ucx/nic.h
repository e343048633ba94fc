// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One endpoint: a worker of UCX, the peers it knows, and what is under way. contact.cc makes
// contact and ends it, memory.cc reaches peers' memory.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "drivers/interfaces.h"
#include "drivers/ucx/wire.h"
#include "drivers/ucx/worker.h"

namespace torii::ucx {

class UcxDriver final : public Driver, private Paths, private Advice {
 public:
  UcxDriver(const DriverEnv& env, const Transports& transports);
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
  Advice* advice() override { return transports_.remote_memory ? this : nullptr; }

 private:
  // A message of UCX's that carries a frame or what the driver itself has to say.
  static constexpr uint32_t kMtu = 8128;  // with the prefix less than a piece of UCX's, but for ud
  struct Message {
    UcxDriver* driver = nullptr;
    PeerId peer = kNoPeer;
    const Tx* tx = nullptr;  // its bytes are still there
    size_t size = 0;
    std::array<std::byte, kPrefixBytes + kMtu> bytes;  // what of it has been copied
  };

  struct Peer {
    UcxDriver* driver = nullptr;
    PeerId id = kNoPeer;
    PublicKey key{};
    ucp_ep_h ep = nullptr;
    bool connected = false;         // by the core, or it was heard
    bool greeted = false;           // it was sent a hello
    bool heard = false;             // its hello has come: it takes frames
    bool ended = false;             // peer_down() was called
    Status end = Status::ok;        // what peer_down() will say or has said
    uint32_t open = 0;              // requests of UCX's under way: what follows waits for them
    uint32_t number = 0;            // of this process at the peer
    uint32_t seq = 0;               // of the next message to it
    uint32_t expected = 0;          // of the next one from it
    uint64_t greeted_ns = 0;        // last hello
    uint64_t gap_ns = 0;            // from then to the next one
    std::string path;               // as text() told it when the peer was heard
    std::vector<uint64_t> written;  // cookies of puts that the next flush covers
    bool flushing = false;
    std::vector<uint64_t> flushed;  // cookies of puts that the present one covers
  };
  // A message that came when the round had handed up enough.
  struct Kept {
    PeerId from = kNoPeer;
    std::byte* data = nullptr;
    size_t size = 0;
    bool lent = false;  // memory of UCX's; else malloc's
  };
  struct Import {
    PeerId peer = kNoPeer;
    ucp_rkey_h rkey = nullptr;
    uint64_t base = 0, bytes = 0;
    uint32_t access = 0;
  };
  // A put or a get of several pieces.
  struct Move {
    UcxDriver* driver = nullptr;
    PeerId peer = kNoPeer;
    uint64_t cookie = 0;
    uint32_t open = 0;  // pieces under way
    bool put = false;
    Status status = Status::ok;
  };

  std::string text(PeerId peer) const override;
  uint32_t long_max(PeerId) const override { return 0; }
  bool delivered() const override { return open_ == 0; }

  // nic.cc
  Message* new_message(PeerId peer);
  void post(Message* message, Id id);
  static void pack(const Message& message, size_t offset, std::byte* out, size_t bytes);
  static void on_sent(void* request, ucs_status_t status, void* message);
  static ucs_status_t on_frame(void* driver, const void*, size_t, void* data, size_t size,
                               const ucp_am_recv_param_t* param);
  bool accept(std::span<const std::byte> message, Peer** from);
  ucs_status_t keep(const Peer& peer, void* data, size_t size, bool lent);
  void hand_up(PeerId from, std::span<const std::byte> message);
  void hand_up_kept();
  unsigned tell_done();
  bool create_data_type();

  // contact.cc
  Peer* find(PeerId id) { return id < peers_.size() ? peers_[id].get() : nullptr; }
  Peer* meet(const Address& address, ucs_status_t* status);
  void greet(Peer& peer);
  void greet_again();
  bool make_tag(std::span<const std::byte> hello, const PublicKey& key, bool own, std::byte* out);
  void take_hellos();
  bool take_hello(std::span<const std::byte> message);
  static ucs_status_t on_hello(void* driver, const void*, size_t, void* data, size_t size,
                               const ucp_am_recv_param_t* param);
  static ucs_status_t on_bye(void* driver, const void*, size_t, void* data, size_t size,
                             const ucp_am_recv_param_t* param);
  static void on_error(void* peer, ucp_ep_h ep, ucs_status_t status);
  void end(Peer& peer, Status why);
  void report_ends();
  void close_endpoint(Peer& peer);
  void say_bye();

  // memory.cc
  Status move(const Rma& rma, Cap cap);
  void flush_written();
  static void on_moved(void* request, ucs_status_t status, void* move);
  static void on_flushed(void* request, ucs_status_t status, void* peer);
  void end_move(Move* move);
  void finish(std::vector<uint64_t>* cookies, Status status);

  Sink& sink_;
  Counters& counters_;
  const Transports transports_;
  const Keys* const keys_;
  Members* const members_;
  const std::string purpose_;
  DriverCaps caps_;
  Worker ucx_;
  std::vector<std::byte> own_;  // address
  ucp_datatype_t data_type_ = 0;
  Random random_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by PeerId
  std::map<PublicKey, PeerId> by_key_;
  std::vector<PeerId> greeting_;  // that have not been heard yet
  std::vector<PeerId> ending_;    // to be reported
  std::vector<std::unique_ptr<Message>> messages_;
  std::vector<Message*> free_messages_;
  uint32_t open_ = 0;  // requests under way, of all peers
  std::deque<Kept> kept_;
  std::vector<std::vector<std::byte>> hellos_;     // that have come
  std::vector<std::pair<uint64_t, Status>> done_;  // for the next poll
  std::vector<Import> imports_;
  std::vector<uint32_t> free_imports_;
  std::vector<PeerId> to_flush_;  // that have puts no flush has covered
  uint64_t now_ns_ = 0;
  unsigned room_ = 0;  // for upcalls of this round
  unsigned handed_up_ = 0;
  unsigned empty_polls_ = 0, polls_to_skip_ = 0;
  unsigned vain_wakes_ = 0;  // in a row
  int timer_ = -1;           // of sleeps by time
  bool closing_ = false;
};

}  // namespace torii::ucx
