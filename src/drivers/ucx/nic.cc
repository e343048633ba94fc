// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The driver: its peers, frames and memory. Each of two processes that meet sends the other a
// hello: the one that connects at once, the other one when it has heard it. UCX is not given a
// stranger's address before the hello's tag has shown that it comes from a member of the job.
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/hardware.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/refuse.h"
#include "drivers/copy_frame.h"
#include "drivers/done_queue.h"
#include "drivers/interfaces.h"
#include "drivers/ucx/ucx.h"
#include "drivers/ucx/wire.h"
#include "drivers/ucx/worker.h"

namespace torii {
namespace ucx {
namespace {

constexpr uint32_t kMtu = 8128;           // with the prefix less than a piece of UCX's, but for ud
constexpr uint32_t kTcpMtu = 60 << 10;    // the same over tcp, where UCX need not copy long ones
constexpr uint32_t kOpenMax = 16;         // messages of a peer that UCX keeps
constexpr uint64_t kGreetNs = 100000000;  // between two hellos
constexpr int kCloseMs = 500;             // at most, for the last messages

class UcxDriver final : public Driver, private Paths, private Advice {
 public:
  explicit UcxDriver(const DriverEnv& env) : env_(env) {}

  // Takes leave: UCX tells nobody that a process ends in good order.
  ~UcxDriver() override {
    closing_ = true;
    if (!ucx_.handle) return;
    for (const auto& peer : peers_)
      if (peer->heard && peer->end == Status::ok) post(*peer, begin_message(*peer, kBye));
    const ucp_request_param_t param{};
    void* const request = ucp.worker_flush_nbx(ucx_.handle, &param);
    if (UCS_PTR_IS_PTR(request)) {
      for (int i = 0; ucp.request_check_status(request) == UCS_INPROGRESS && i < kCloseMs; i++)
        if (ucp.worker_progress(ucx_.handle) == 0) usleep(1000);
      ucp.request_free(request);
    }
    for (const auto& peer : peers_) close_endpoint(*peer);
    while (ucp.worker_progress(ucx_.handle) != 0) continue;
  }

  bool open(const std::string& transports, std::string* why) {
    if (!env_.keys) return refuse(why, false, "ucx: this program gave the driver no key pair");
    if (!ucx_.open(transports, static_cast<uint64_t>(params().peer_deadline_ms), why)) return false;
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kMessageId;
    handler.cb = on_message;
    handler.arg = this;
    if (ucp.worker_set_am_recv_handler(ucx_.handle, &handler) != UCS_OK)
      return refuse(why, false, "ucx: UCX takes no handler of messages; use another version of it");
    own_ = seal(AddressHead{.version = ucx_.version, .key = env_.keys->own()}, ucx_.address);
    caps_ = {.flags = kReliable | kPeerDown | kWait,
             .mtu = all_of(transports, {"tcp"}) ? kTcpMtu : kMtu,
             .pieces_max = 16,
             .address_bytes = static_cast<uint32_t>(own_.size()),
             .peers_max = kBye - 1};
    caps_.inline_max = caps_.mtu;
    if (!has_remote_memory(transports)) return true;
    caps_.flags |= kPut | kGet;
    caps_.key_bytes = kKeyMax;
    caps_.remote_max = 1 << 30;
    remote_min = 256 << 10;  // registering costs more than copying less
    return true;
  }

  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override { std::ranges::copy(own_, out); }
  void disconnect(PeerId peer) override { peers_[peer]->connected = false; }
  Paths* paths() override { return this; }
  Advice* advice() override { return has_memory() ? this : nullptr; }

  Status connect(std::span<const std::byte> address, PeerId* id, std::string* why) override {
    AddressHead to;
    if (!parse_address(address, &to))
      return refuse(why, Status::invalid,
                    "ucx: the address was changed on its way, or is none; all processes of a job "
                    "must use the same version of Torii");
    if (to.version != ucx_.version)
      return refuse(why, Status::unreachable,
                    "ucx: the peer has UCX %u.%u, this process %u.%u; install the same everywhere",
                    to.version >> 8, to.version & 0xff, ucx_.version >> 8, ucx_.version & 0xff);
    Peer* peer = find(to.key);
    if (!peer) peer = meet(to.key, address, why);
    if (!peer) return Status::unreachable;
    if (peer->end != Status::ok)
      return refuse(why, verdict(*peer), "ucx: this process is gone or out of reach (%s)",
                    status_text(peer->end));
    peer->connected = true;
    *id = peer->id;
    return Status::ok;
  }

  // UCX queues without bounds.
  size_t send(std::span<const Tx> batch) override {
    size_t taken = 0;
    for (; taken < batch.size(); taken++) {
      const Tx& tx = batch[taken];
      Peer& peer = *peers_[tx.peer];
      TORII_ASSERT(tx.head_bytes <= kHeadMax && tx.head_bytes + tx.body_bytes <= caps_.mtu);
      if (!peer.heard || peer.open >= kOpenMax || !done_.has_room() || peer.end != Status::ok)
        break;
      post(peer, copy_frame(tx, begin_message(peer, 0)));
      done_.add(tx.cookie);
    }
    return taken;
  }

  unsigned poll(uint64_t now_ns, unsigned budget) override {
    now_ns_ = now_ns;
    events_ = done_.report(*env_.sink);
    budget_ = events_ + budget;  // for frames
    for (; !kept_.empty() && events_ < budget_; kept_.pop_front())
      hand_up(kept_.front().first, kept_.front().second);
    if (!kept_.empty()) return events_;
    ucp.worker_progress(ucx_.handle);
    greet_again();
    if (ends_ && kept_.empty()) report_ends();
    return events_;
  }

  // UCX's tcp arms itself though something has come.
  Status arm(int* fd) override {
    if (!done_.empty() || !kept_.empty() || ends_ || ucp.worker_arm(ucx_.handle) != UCS_OK)
      return Status::again;
    *fd = ucx_.descriptor;
    pollfd set{*fd, POLLIN, 0};
    return ::poll(&set, 1, 0) == 0 ? Status::ok : Status::again;
  }

  // Everything about a key is checked before UCX sees it.
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    if (!has_memory() || (access & ~(kRemoteRead | kRemoteWrite))) return Status::unsupported;
    if (!base && bytes) return Status::invalid;
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                        UCP_MEM_MAP_PARAM_FIELD_PROT | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    params.address = base;
    params.length = std::max<uint64_t>(bytes, 1);
    params.prot = UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_LOCAL_WRITE |
                  (access & kRemoteRead ? UCP_MEM_MAP_PROT_REMOTE_READ : 0) |
                  (access & kRemoteWrite ? UCP_MEM_MAP_PROT_REMOTE_WRITE : 0);
    params.memory_type = UCS_MEMORY_TYPE_HOST;
    ucp_mem_h memory = nullptr;
    if (ucp.mem_map(ucx_.context, &params, &memory) != UCS_OK) return Status::no_memory;
    *out = Region{base, bytes, access, {}, reinterpret_cast<uintptr_t>(memory), out->label};
    void* rkey = nullptr;
    size_t size = 0;
    const bool packed = ucp.rkey_pack(ucx_.context, memory, &rkey, &size) == UCS_OK;
    const bool fits = packed && size <= kRkeyMax;
    const KeyHead head{.access = access, .base = reinterpret_cast<uintptr_t>(base), .bytes = bytes};
    if (fits)
      std::ranges::copy(seal(head, {static_cast<std::byte*>(rkey), size}, kKeyMax),
                        out->key.begin());
    if (packed) ucp.rkey_buffer_release(rkey);
    if (!fits) dereg(*out);
    return fits ? Status::ok : Status::unsupported;
  }

  void dereg(Region& region) override {
    (void)ucp.mem_unmap(ucx_.context, reinterpret_cast<ucp_mem_h>(region.driver_data));
    region = Region{};
  }

  Status import(PeerId id, std::span<const std::byte> bytes, uint32_t* remote) override {
    if (!has_memory()) return Status::unsupported;
    Import import{id, nullptr, {}};
    const Peer* const peer = find(id);
    if (!peer || !peer->ep || !parse_key(bytes, &import.key) ||
        ucp.ep_rkey_unpack(peer->ep, bytes.data() + sizeof(KeyHead), &import.rkey) != UCS_OK)
      return Status::invalid;
    *remote = next_import_++;
    imports_[*remote] = import;
    return Status::ok;
  }

  void drop(uint32_t remote) override {
    ucp.rkey_destroy(imports_[remote].rkey);
    imports_.erase(remote);
  }

  Status put(const Rma& rma) override { return move(rma, kPut); }
  Status get(const Rma& rma) override { return move(rma, kGet); }

 private:
  struct Peer {
    UcxDriver* driver = nullptr;
    PeerId id = kNoPeer;
    PublicKey key{};
    ucp_ep_h ep = nullptr;
    bool connected = false;   // by the core, or it was heard
    bool heard = false;       // its hello has come: it takes frames
    bool down = false;        // its end was reported
    Status end = Status::ok;  // what its end is, if it was heard
    uint32_t open = 0;        // messages that UCX keeps
    uint32_t moves = 0;       // puts and gets under way
    uint32_t number = 0;      // of this process at the peer
    uint32_t seq = 0;         // of the next message to it
    uint32_t expected = 0;    // of the next one from it
    std::string path;         // as UCX told it when the peer was heard
  };
  struct Message {
    Peer* peer = nullptr;
    std::array<std::byte, sizeof(Prefix) + kTcpMtu> bytes;
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

  std::string text(PeerId id) const override {
    const Peer& peer = *peers_[id];  // until it is heard the path may change
    return peer.heard || !peer.ep ? peer.path : ucx_.path(peer.ep);
  }
  uint32_t long_max(PeerId) const override { return 0; }
  bool delivered() const override { return open_ == 0; }

  bool has_memory() const { return caps_.flags & kPut; }  // that peers' cards reach
  Peer* find(PeerId id) { return id < peers_.size() ? peers_[id].get() : nullptr; }
  Peer* find(const PublicKey& key) {
    const auto known = by_key_.find(key);
    return known == by_key_.end() ? nullptr : known->second;
  }

  // --- hellos ------------------------------------------------------------------------------------

  // Makes the process with this key a peer, and greets it. Null with the reason in *why.
  Peer* meet(const PublicKey& key, std::span<const std::byte> address, std::string* why) {
    auto peer = std::make_unique<Peer>();
    peer->driver = this;
    peer->id = static_cast<PeerId>(peers_.size());
    peer->key = key;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data() + sizeof(AddressHead));
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler = {on_error, peer.get()};
    const bool drawn = getrandom(&peer->expected, sizeof(uint32_t), 0) == sizeof(uint32_t);
    const ucs_status_t status =
        drawn ? ucp.ep_create(ucx_.handle, &params, &peer->ep) : UCS_ERR_IO_ERROR;
    if (status != UCS_OK)
      return refuse(why, nullptr,
                    "ucx: UCX finds no way to the peer by '%s' (%s); compare what ucx_info -d "
                    "lists on both nodes",
                    ucx_.transports.c_str(), ucp.status_string(status));
    if (!greet(*peer)) {
      close_endpoint(*peer);
      return refuse(why, nullptr,
                    "ucx: the address has no key that this process can use; let libcrypto permit "
                    "the same curves on all nodes");
    }
    by_key_[key] = peer.get();
    return peers_.emplace_back(std::move(peer)).get();
  }

  // The first half of a key of which the hello itself is the purpose.
  bool make_tag(std::span<const std::byte> hello, const PublicKey& key, bool own, std::byte* out) {
    PairKeys pair;
    std::string purpose = "ucx hello " + env_.name;
    purpose.append(reinterpret_cast<const char*>(hello.data()), hello.size());
    if (!env_.keys->agree(key, purpose, &pair)) return false;
    std::copy_n((own ? pair.to : pair.from).begin(), kTagBytes, out);
    return true;
  }

  // False: there is no key for it.
  bool greet(Peer& peer) {
    const Who self = env_.members ? env_.members->self() : Who{};
    const Hello hello{
        .number = peer.id, .first = peer.expected, .job = self.job, .rank = self.rank};
    std::byte* const begin = next_->bytes.data();
    std::memcpy(begin, &hello, sizeof(hello));
    std::byte* const end = std::ranges::copy(own_, begin + sizeof(hello)).out;
    if (!make_tag({begin, end}, peer.key, true, end)) return false;
    post(peer, end + kTagBytes);
    return true;
  }

  // A hello that came while its receiver could not ask who that is, was not heard. Cards answer an
  // empty message as long as there is the process.
  void greet_again() {
    if (now_ns_ < greet_at_ns_) return;
    greet_at_ns_ = now_ns_ + kGreetNs;
    const bool ask = has_memory() && now_ns_ >= ask_at_ns_;
    if (ask) ask_at_ns_ = now_ns_ + 250000 * params().peer_deadline_ms;  // a quarter
    for (const auto& peer : peers_) {
      if (peer->end != Status::ok || peer->open > 0) continue;
      if (!peer->heard) greet(*peer);
      if (peer->heard && ask) post(*peer, next_->bytes.data());
    }
  }

  // False: nobody who may talk to this process has sent that.
  bool take_hello(std::span<const std::byte> message) {
    Hello hello;
    AddressHead head;
    if (!parse_hello(message, &hello, &head) || head.version != ucx_.version) return false;
    const auto said = message.first(message.size() - kTagBytes);
    const auto address = said.subspan(sizeof(hello));
    Peer* peer = find(head.key);
    if (peer && (peer->heard || peer->end != Status::ok)) return true;  // sent again meanwhile
    std::byte tag[kTagBytes];
    if (!make_tag(said, head.key, false, tag) ||
        !std::ranges::equal(message.last(kTagBytes), tag) ||
        (!peer && (!env_.members || !env_.members->admits({hello.job, hello.rank}, address))))
      return false;
    std::string why;
    // A known peer may have missed the hello before this one, which comes before all frames.
    if (peer) greet(*peer);
    if (!peer) peer = meet(head.key, address, &why);
    if (!peer) {
      TORII_WARN("rank %u says hello, but %s", hello.rank, why.c_str());
      return true;
    }
    peer->heard = true;
    peer->path = ucx_.path(peer->ep);
    peer->number = hello.number;
    peer->seq = hello.first;
    return true;
  }

  // --- messages ----------------------------------------------------------------------------------

  // The parameters of an operation on memory that is no GPU's.
  static ucp_request_param_t request_param(ucp_send_nbx_callback_t callback, void* user_data) {
    ucp_request_param_t param{};
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.send = callback;
    param.user_data = user_data;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    return param;
  }

  // Begins next_; returns where the frame goes.
  std::byte* begin_message(Peer& peer, uint32_t flag) {
    const Prefix prefix{peer.number | flag, peer.seq++};
    std::memcpy(next_->bytes.data(), &prefix, sizeof(prefix));
    return next_->bytes.data() + sizeof(prefix);
  }

  // Hands next_, up to `end`, to UCX, which may keep it. If it refuses, the peer is lost.
  void post(Peer& peer, const std::byte* end) {
    next_->peer = &peer;
    const std::byte* const begin = next_->bytes.data();
    ucp_request_param_t param = request_param(on_sent, next_.get());
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    void* const request = ucp.am_send_nbx(peer.ep, kMessageId, nullptr, 0, begin,
                                          static_cast<size_t>(end - begin), &param);
    if (UCS_PTR_IS_ERR(request)) on_error(&peer, peer.ep, UCS_PTR_STATUS(request));
    if (!UCS_PTR_IS_PTR(request)) return;
    (void)next_.release();  // on_sent() has it
    next_.reset(new Message);
    peer.open++;
    open_++;
  }

  static void on_sent(void* request, ucs_status_t, void* sent) {
    const std::unique_ptr<Message> message(static_cast<Message*>(sent));
    ucp.request_free(request);
    message->peer->open--;
    message->peer->driver->open_--;
  }

  static ucs_status_t on_message(void* self, const void*, size_t, void* data, size_t size,
                                 const ucp_am_recv_param_t* param) {
    UcxDriver& driver = *static_cast<UcxDriver*>(self);
    if (driver.closing_) return UCS_OK;
    const bool announced = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;  // `data` is no memory
    if (announced || !driver.accept({static_cast<std::byte*>(data), size}))
      driver.env_.counters->ucx_foreign++;
    return UCS_OK;
  }

  // Is it a good hello, or the next message of a peer that was heard? UCX loses none, so behind a
  // gap there is only what no good peer has sent.
  bool accept(std::span<const std::byte> message) {
    Prefix prefix;
    if (message.size() < sizeof(prefix)) return message.empty();
    std::memcpy(&prefix, message.data(), sizeof(prefix));
    Peer* const peer = find(prefix.to & ~kBye);
    if (!peer) return take_hello(message);
    if (!peer->heard || peer->end != Status::ok || prefix.seq != peer->expected) return false;
    peer->expected++;
    peer->connected = true;
    const auto frame = message.subspan(sizeof(prefix));
    if (prefix.to & kBye)
      end(*peer, Status::peer_closed);
    else if (events_ >= budget_)
      kept_.emplace_back(peer->id, std::vector(frame.begin(), frame.end()));
    else
      hand_up(peer->id, frame);
    return true;
  }

  void hand_up(PeerId from, std::span<const std::byte> frame) {
    events_++;
    env_.sink->packet(from, frame);
  }

  // --- puts and gets -----------------------------------------------------------------------------

  // A flush behind the pieces tells that they have reached the peer.
  Status move(const Rma& rma, Cap cap) {
    if (!has_memory()) return Status::unsupported;
    const auto found = imports_.find(rma.remote);
    if (found == imports_.end()) return Status::invalid;
    const auto& [id, rkey, key] = found->second;
    Peer& peer = *peers_[id];
    if (!(key.access & (cap == kPut ? kRemoteWrite : kRemoteRead)) ||
        rma.remote_offset > key.bytes || rma.bytes > key.bytes - rma.remote_offset)
      return Status::invalid;
    if (peer.end != Status::ok) return peer.end;
    if (rma.bytes == 0) return Status::ok;
    if (rma.cookie == 0) return Status::again;
    auto move = std::make_unique<Move>(Move{&peer, rma.cookie});
    const ucp_request_param_t param = request_param(on_moved, move.get());
    const auto began = [&](void* request) {
      if (UCS_PTR_IS_ERR(request)) move->status = Status::denied;
      move->open += UCS_PTR_IS_PTR(request);
    };
    uint64_t at = key.base + rma.remote_offset;
    for (const auto& [base, bytes] : std::span(rma.pieces, rma.piece_count)) {
      if (bytes > 0)
        began(cap == kPut ? ucp.put_nbx(peer.ep, base, bytes, at, rkey, &param)
                          : ucp.get_nbx(peer.ep, base, bytes, at, rkey, &param));
      at += bytes;
    }
    began(ucp.ep_flush_nbx(peer.ep, &param));
    if (move->open == 0) return move->status;
    (void)move.release();  // on_moved() has it
    peer.moves++;
    open_++;
    return Status::pending;
  }

  static void on_moved(void* request, ucs_status_t status, void* moved) {
    Move* const move = static_cast<Move*>(moved);
    UcxDriver& driver = *move->peer->driver;
    ucp.request_free(request);
    if (status != UCS_OK) move->status = Status::peer_dead;
    if (--move->open > 0) return;
    driver.done_.add(move->cookie, move->status);
    move->peer->moves--;
    driver.open_--;
    delete move;
  }

  // --- the end of a peer -------------------------------------------------------------------------

  static void on_error(void* lost, ucp_ep_h, ucs_status_t status) {
    Peer& peer = *static_cast<Peer*>(lost);
    UcxDriver& driver = *peer.driver;
    if (peer.end == Status::ok && !driver.closing_)
      TORII_INFO("ucx: UCX has lost a peer: %s", ucp.status_string(status));
    driver.end(peer, Status::peer_dead);
  }

  // To be told by report_ends().
  void end(Peer& peer, Status why) {
    if (peer.end != Status::ok) return;
    peer.end = why;
    ends_ = true;
  }

  // Closing an endpoint ends all that is under way to the peer.
  void report_ends() {
    ends_ = false;
    for (size_t i = 0; i < peers_.size(); i++) {  // upcalls may add some
      Peer& peer = *peers_[i];
      if (peer.end == Status::ok || peer.down) continue;
      close_endpoint(peer);
      events_ += done_.report(*env_.sink);
      peer.down = peer.moves == 0;
      ends_ |= !peer.down;
      if (!peer.down || !peer.connected) continue;
      env_.sink->peer_down(peer.id, verdict(peer));
      events_++;
    }
  }

  // A peer that was never heard took no frame, and may be reached otherwise.
  static Status verdict(const Peer& peer) { return peer.heard ? peer.end : Status::unreachable; }

  static void close_endpoint(Peer& peer) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    if (!peer.ep) return;
    void* const request = ucp.ep_close_nbx(std::exchange(peer.ep, nullptr), &param);
    if (UCS_PTR_IS_PTR(request)) ucp.request_free(request);
  }

  const DriverEnv env_;
  DriverCaps caps_;
  std::vector<std::byte> own_;                // address
  std::vector<std::unique_ptr<Peer>> peers_;  // by PeerId
  std::map<PublicKey, Peer*> by_key_;
  std::unique_ptr<Message> next_{new Message};  // to be sent
  DoneQueue done_;
  std::deque<std::pair<PeerId, std::vector<std::byte>>> kept_;  // came when enough was handed up
  std::map<uint32_t, Import> imports_;
  uint32_t next_import_ = 0;
  uint32_t open_ = 0;  // messages, puts and gets under way
  uint64_t now_ns_ = 0;
  uint64_t greet_at_ns_ = 0;  // when peers that have not been heard hear again
  uint64_t ask_at_ns_ = 0;    // when the others' cards are asked whether they are there
  unsigned events_ = 0;       // of this round
  unsigned budget_ = 0;       // of this round: so many, then frames wait for the next one
  bool ends_ = false;         // there are some to be reported
  bool closing_ = false;
  Worker ucx_;  // ends first: its callbacks use all of these
};

}  // namespace
}  // namespace ucx

std::unique_ptr<Driver> open_ucx(const DriverEnv& env, std::string* why) {
  const std::string& wanted = params().ucx_tls;
  if (wanted.empty() && rdma_devices().empty())
    return refuse(why, nullptr,
                  "ucx: this node has no RDMA device (/sys/class/infiniband); TORII_UCX_TLS=tcp "
                  "tries it without one");
  auto driver = std::make_unique<ucx::UcxDriver>(env);
  return driver->open(wanted.empty() ? "ib" : wanted, why) ? std::move(driver) : nullptr;
}

}  // namespace torii
