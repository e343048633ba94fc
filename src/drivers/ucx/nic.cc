// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/ucx/nic.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "core/base/param.h"
#include "drivers/ucx/devices.h"
#include "drivers/ucx/ucx.h"

namespace torii {

std::unique_ptr<Driver> open_ucx(const DriverEnv& env, std::string* why) {
  const std::string& wanted = params().ucx_tls;
  if (wanted.empty() && ucx::rdma_devices().empty()) {
    *why =
        "ucx: this node has no RDMA device (/sys/class/infiniband); TORII_UCX_TLS=tcp tries it "
        "without one";
    return nullptr;
  }
  const ucx::Transports transports(wanted.empty() ? "ib" : wanted);
  auto driver = std::make_unique<ucx::UcxDriver>(env, transports);
  if (!driver->open(why)) return nullptr;
  return driver;
}

namespace ucx {
namespace {

constexpr size_t kGatheredMax = 2048;  // longer messages UCX gathers itself
constexpr uint32_t kPeersMax = 1 << 20;
constexpr uint64_t kRemoteMin = 256 << 10;  // registering costs more than copying less
constexpr uint64_t kRemoteMax = 1 << 30;
constexpr unsigned kEagerPolls = 64;  // after a message: more may be coming
constexpr unsigned kSkippedPolls = 7;
constexpr unsigned kVainWakes = 4;
constexpr long kNapNs = 500000;

uint64_t draw_seed() {
  uint64_t number = 0;
  while (getrandom(&number, sizeof(number), 0) != sizeof(number)) continue;
  return number;
}

}  // namespace

UcxDriver::UcxDriver(const DriverEnv& env, const Transports& transports)
    : sink_(*env.sink),
      counters_(*env.counters),
      transports_(transports),
      keys_(env.keys),
      members_(env.members),
      purpose_("ucx hello " + env.name),
      random_(draw_seed()) {
  remote_min = kRemoteMin;
}

bool UcxDriver::open(std::string* why) {
  if (!keys_) {
    *why = "ucx: this program gave the driver no key pair";
    return false;
  }
  if (!ucx_.open(transports_, static_cast<uint64_t>(params().peer_deadline_ms), why)) return false;
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  const std::pair<Id, ucp_am_recv_callback_t> handlers[] = {
      {kFrame, on_frame}, {kBye, on_bye}, {kHello, on_hello}};
  bool ready = timer_ >= 0 && create_data_type();
  for (const auto& [id, handler] : handlers) {
    ucp_am_handler_param_t param{};
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
    param.id = id;
    param.cb = handler;
    param.arg = this;
    ready = ready && ucx_->worker_set_am_recv_handler(ucx_.handle(), &param) == UCS_OK;
  }
  if (!ready) {
    *why = "ucx: UCX takes no handlers of messages; use another version of it";
    return false;
  }
  own_.resize(kAddressMax);
  own_.resize(write_address({keys_->own(), ucx_.version(), ucx_.address()}, own_.data()));
  caps_.flags = kReliable | kPeerDown | kWait;
  caps_.mtu = caps_.inline_max = kMtu;
  caps_.pieces_max = 16;
  caps_.address_bytes = static_cast<uint32_t>(own_.size());
  caps_.peers_max = kPeersMax;
  if (transports_.remote_memory) {
    caps_.flags |= kPut | kGet;
    caps_.key_bytes = kKeyMax;
    caps_.remote_max = kRemoteMax;
  }
  return true;
}

UcxDriver::~UcxDriver() {
  closing_ = true;
  if (ucx_.handle()) say_bye();
  for (const Kept& one : kept_)
    one.lent ? ucx_->am_data_release(ucx_.handle(), one.data) : free(one.data);
  if (data_type_) ucx_->dt_destroy(data_type_);
  if (timer_ >= 0) close(timer_);
}

// --- sending -----------------------------------------------------------------------------------

// UCX gathers a long message straight into its own buffer, now or, if it has no room, later. Then
// the message was copied meanwhile.
bool UcxDriver::create_data_type() {
  ucp_generic_dt_ops_t ops{};
  ops.start_pack = [](void*, const void* message, size_t) { return const_cast<void*>(message); };
  ops.start_unpack = [](void*, void*, size_t) -> void* { return nullptr; };
  ops.packed_size = [](void* message) { return static_cast<Message*>(message)->size; };
  ops.pack = [](void* message, size_t offset, void* out, size_t most) {
    const Message& from = *static_cast<Message*>(message);
    const size_t bytes = std::min(most, from.size - offset);
    pack(from, offset, static_cast<std::byte*>(out), bytes);
    return bytes;
  };
  ops.unpack = [](void*, size_t, const void*, size_t) { return UCS_ERR_UNSUPPORTED; };
  ops.finish = [](void*) {};
  return ucx_->dt_create_generic(&ops, nullptr, &data_type_) == UCS_OK;
}

// Copies that part of a message to `out`.
void UcxDriver::pack(const Message& message, size_t offset, std::byte* out, size_t bytes) {
  const auto add = [&](const void* from, size_t size) {
    if (offset >= size) {
      offset -= size;
      return;
    }
    const size_t n = std::min(bytes, size - offset);
    if (n > 0) std::memcpy(out, static_cast<const std::byte*>(from) + offset, n);
    out += n;
    bytes -= n;
    offset = 0;
  };
  if (!message.tx) return add(message.bytes.data(), message.size);
  add(message.bytes.data(), kPrefixBytes);
  add(message.tx->head, message.tx->head_bytes);
  for (uint32_t i = 0; i < message.tx->piece_count && bytes > 0; i++)
    add(message.tx->pieces[i].iov_base, message.tx->pieces[i].iov_len);
}

UcxDriver::Message* UcxDriver::new_message(PeerId peer) {
  if (free_messages_.empty()) {
    messages_.push_back(std::make_unique<Message>());
    free_messages_.push_back(messages_.back().get());
  }
  Message* const message = free_messages_.back();
  free_messages_.pop_back();
  message->driver = this;
  message->peer = peer;
  message->tx = nullptr;
  return message;
}

// Hands a message to UCX, which may keep it. One that it refuses is lost, and so is the peer.
void UcxDriver::post(Message* message, Id id) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                       UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = on_sent;
  param.user_data = message;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const void* buffer = message->bytes.data();
  size_t count = message->size;
  if (message->tx) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = data_type_;
    buffer = message;
    count = 1;
  }
  Peer& peer = *peers_[message->peer];
  void* const request = ucx_->am_send_nbx(peer.ep, id, nullptr, 0, buffer, count, &param);
  if (UCS_PTR_IS_ERR(request)) on_error(&peer, peer.ep, UCS_PTR_STATUS(request));
  if (!UCS_PTR_IS_PTR(request)) return free_messages_.push_back(message);
  if (message->tx) {
    pack(*message, kPrefixBytes, message->bytes.data() + kPrefixBytes,
         message->size - kPrefixBytes);
    message->tx = nullptr;
  }
  peer.open++;
  open_++;
}

void UcxDriver::on_sent(void* request, ucs_status_t, void* sent) {
  Message* const message = static_cast<Message*>(sent);
  UcxDriver& driver = *message->driver;
  driver.ucx_->request_free(request);
  driver.peers_[message->peer]->open--;
  driver.open_--;
  driver.free_messages_.push_back(message);
}

// UCX queues without bounds: while it keeps something of a peer's nothing more is handed to it.
size_t UcxDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    Peer& peer = *peers_[tx.peer];
    TORII_ASSERT(tx.head_bytes <= kHeadMax && tx.head_bytes + tx.body_bytes <= caps_.mtu);
    if (!peer.heard || peer.open > 0 || peer.end != Status::ok) break;
    Message* const message = new_message(tx.peer);
    message->size = kPrefixBytes + tx.head_bytes + tx.body_bytes;
    message->tx = &tx;
    write_prefix({peer.number, peer.seq++}, message->bytes.data());
    if (message->size <= kGatheredMax) {
      pack(*message, kPrefixBytes, message->bytes.data() + kPrefixBytes,
           message->size - kPrefixBytes);
      message->tx = nullptr;
    }
    post(message, kFrame);
    if (tx.cookie) done_.push_back({tx.cookie, Status::ok});
    taken++;
  }
  return taken;
}

// --- receiving -----------------------------------------------------------------------------------

// Is this the next message of a peer that was heard? UCX loses none, so behind a gap there is only
// what no good peer has sent.
bool UcxDriver::accept(std::span<const std::byte> message, Peer** from) {
  Prefix prefix;
  Peer* const peer = parse_prefix(message, &prefix) ? find(prefix.to) : nullptr;
  if (!peer || !peer->heard || peer->end != Status::ok || prefix.seq != peer->expected) {
    counters_.ucx_foreign++;
    return false;
  }
  peer->expected++;
  peer->connected = true;
  *from = peer;
  return true;
}

ucs_status_t UcxDriver::on_frame(void* self, const void*, size_t, void* data, size_t size,
                                 const ucp_am_recv_param_t* param) {
  UcxDriver& driver = *static_cast<UcxDriver*>(self);
  if (driver.closing_) return UCS_OK;
  const bool announced = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;  // `data` is no memory
  Peer* peer = nullptr;
  if (!driver.accept({static_cast<std::byte*>(data), announced ? 0 : size}, &peer)) return UCS_OK;
  if (driver.room_ == 0 || !driver.kept_.empty())
    return driver.keep(*peer, data, size, param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA);
  driver.hand_up(peer->id, {static_cast<std::byte*>(data), size});
  return UCS_OK;
}

ucs_status_t UcxDriver::keep(const Peer& peer, void* data, size_t size, bool lent) {
  Kept one{peer.id, static_cast<std::byte*>(data), size, lent};
  if (!lent) {
    one.data = static_cast<std::byte*>(malloc(size));
    TORII_ASSERT(one.data);
    std::memcpy(one.data, data, size);
  }
  kept_.push_back(one);
  return lent ? UCS_INPROGRESS : UCS_OK;
}

void UcxDriver::hand_up(PeerId from, std::span<const std::byte> message) {
  handed_up_++;
  if (room_ > 0) room_--;
  sink_.packet(from, message.subspan(kPrefixBytes));
}

void UcxDriver::hand_up_kept() {
  while (room_ > 0 && !kept_.empty()) {
    const Kept one = kept_.front();
    hand_up(one.from, {one.data, one.size});
    one.lent ? ucx_->am_data_release(ucx_.handle(), one.data) : free(one.data);
    kept_.pop_front();
  }
}

unsigned UcxDriver::tell_done() {
  if (done_.empty()) return 0;
  const auto now = std::exchange(done_, {});
  for (const auto& [cookie, status] : now) sink_.done(cookie, status);
  return static_cast<unsigned>(now.size());
}

unsigned UcxDriver::poll(uint64_t now_ns, unsigned budget) {
  const bool moved = now_ns != now_ns_;
  now_ns_ = now_ns;
  handed_up_ = 0;
  room_ = budget;
  unsigned told = tell_done();
  hand_up_kept();
  const bool skip = transports_.sockets && !moved && polls_to_skip_ > 0 && polls_to_skip_--;
  if (kept_.empty() && !skip) {
    const unsigned events = ucx_->worker_progress(ucx_.handle());
    empty_polls_ = events ? 0 : empty_polls_ + 1;
    if (events) vain_wakes_ = 0;
    if (empty_polls_ > kEagerPolls) polls_to_skip_ = kSkippedPolls;
    if (!to_flush_.empty()) flush_written();
    if (!hellos_.empty()) take_hellos();
    if (!greeting_.empty()) greet_again();
    if (!ending_.empty() && kept_.empty()) report_ends();
  }
  room_ = 0;
  return told + handed_up_;
}

// --- sleeping ------------------------------------------------------------------------------------

// The descriptor of UCX's tcp may stay readable though there is nothing to do. After some sleeps
// that ended at once because of that, one sleeps by time.
Status UcxDriver::arm(int* fd) {
  if (!done_.empty() || !kept_.empty() || !hellos_.empty() || !ending_.empty() ||
      !to_flush_.empty())
    return Status::again;
  polls_to_skip_ = 0;
  if (ucx_->worker_arm(ucx_.handle()) != UCS_OK) return Status::again;
  *fd = ucx_.descriptor();
  pollfd set{*fd, POLLIN, 0};
  if (::poll(&set, 1, 0) != 1) {
    vain_wakes_ = 0;
    return Status::ok;
  }
  if (++vain_wakes_ <= kVainWakes) return Status::again;
  vain_wakes_ = 0;
  const itimerspec nap{{0, 0}, {0, kNapNs}};
  if (timerfd_settime(timer_, 0, &nap, nullptr) != 0) return Status::again;
  *fd = timer_;
  return Status::ok;
}

std::string UcxDriver::text(PeerId id) const {
  if (peers_[id]->end != Status::ok) return peers_[id]->path;
  const ucp_ep_h ep = peers_[id]->ep;
  char* printed = nullptr;
  size_t bytes = 0;
  FILE* const out = ep ? open_memstream(&printed, &bytes) : nullptr;
  if (!out) return "";
  ucx_->ep_print_info(ep, out);
  fclose(out);
  std::string path = transports_in({printed, bytes});
  free(printed);
  return path;
}

}  // namespace ucx
}  // namespace torii
