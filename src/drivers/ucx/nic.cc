// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/ucx/nic.h"

#include <poll.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/hardware.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "drivers/ucx/ucx.h"

namespace torii {

std::unique_ptr<Driver> open_ucx(const DriverEnv& env, std::string* why) {
  const std::string& wanted = params().ucx_tls;
  if (wanted.empty() && rdma_devices().empty()) {
    *why =
        "ucx: this node has no RDMA device (/sys/class/infiniband); TORII_UCX_TLS=tcp tries it "
        "without one";
    return nullptr;
  }
  auto driver = std::make_unique<ucx::UcxDriver>(env, wanted.empty() ? "ib" : wanted);
  return driver->open(why) ? std::move(driver) : nullptr;
}

namespace ucx {
namespace {

constexpr uint32_t kOpenMax = 16;           // messages of a peer that UCX keeps
constexpr uint64_t kRemoteMin = 256 << 10;  // registering costs more than copying less

}  // namespace

UcxDriver::UcxDriver(const DriverEnv& env, const std::string& transports)
    : sink_(*env.sink),
      counters_(*env.counters),
      transports_(transports),
      has_memory_(has_remote_memory(transports)),
      keys_(env.keys),
      members_(env.members),
      purpose_("ucx hello " + env.name) {
  remote_min = kRemoteMin;
}

bool UcxDriver::open(std::string* why) {
  if (!keys_) {
    *why = "ucx: this program gave the driver no key pair";
    return false;
  }
  if (!ucx_.open(transports_, static_cast<uint64_t>(params().peer_deadline_ms), why)) return false;
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.cb = on_message;
  handler.arg = this;
  if (ucx_->worker_set_am_recv_handler(ucx_.handle, &handler) != UCS_OK) {
    *why = "ucx: UCX takes no handler of messages; use another version of it";
    return false;
  }
  AddressHead head;
  head.version = ucx_.version;
  head.key = keys_->own();
  own_ = write_address(head, ucx_.address);
  caps_.flags = kReliable | kPeerDown | kWait;
  caps_.mtu = caps_.inline_max = kMtu;
  caps_.pieces_max = 16;
  caps_.address_bytes = static_cast<uint32_t>(own_.size());
  caps_.peers_max = 1 << 20;
  if (has_memory_) {
    caps_.flags |= kPut | kGet;
    caps_.key_bytes = kKeyMax;
    caps_.remote_max = 1 << 30;
  }
  return true;
}

UcxDriver::~UcxDriver() {
  closing_ = true;
  if (ucx_.handle) say_bye();
}

// --- sending -----------------------------------------------------------------------------------

UcxDriver::Message* UcxDriver::new_message(Peer& peer) {
  Message* const message = spare_ ? spare_.release() : new Message;
  message->peer = &peer;
  return message;
}

void UcxDriver::recycle(Message* message) { spare_.reset(message); }

// Hands a message to UCX, which may keep it. If it refuses, the peer is lost.
void UcxDriver::post(Message* message, size_t size) {
  Peer& peer = *message->peer;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                       UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = on_sent;
  param.user_data = message;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  void* const request =
      ucx_->am_send_nbx(peer.ep, kMessageId, nullptr, 0, message->bytes.data(), size, &param);
  if (UCS_PTR_IS_ERR(request)) on_error(&peer, peer.ep, UCS_PTR_STATUS(request));
  if (!UCS_PTR_IS_PTR(request)) return recycle(message);
  peer.open++;
  open_++;
}

void UcxDriver::on_sent(void* request, ucs_status_t, void* sent) {
  Message* const message = static_cast<Message*>(sent);
  UcxDriver& driver = *message->peer->driver;
  driver.ucx_->request_free(request);
  message->peer->open--;
  driver.open_--;
  driver.recycle(message);
}

// UCX queues without bounds.
size_t UcxDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    Peer& peer = *peers_[tx.peer];
    TORII_ASSERT(tx.head_bytes <= kHeadMax && tx.head_bytes + tx.body_bytes <= caps_.mtu);
    if (!peer.heard || peer.open >= kOpenMax || peer.end != Status::ok) break;
    Message* const message = new_message(peer);
    std::byte* to = message->bytes.data();
    const auto add = [&to](const void* from, size_t bytes) {
      if (bytes > 0) std::memcpy(to, from, bytes);
      to += bytes;
    };
    const Prefix prefix{peer.number, peer.seq++};
    add(&prefix, sizeof(prefix));
    add(tx.head, tx.head_bytes);
    for (const iovec& piece : std::span(tx.pieces, tx.piece_count))
      add(piece.iov_base, piece.iov_len);
    post(message, static_cast<size_t>(to - message->bytes.data()));
    if (tx.cookie) done_.push_back({tx.cookie, Status::ok});
    taken++;
  }
  return taken;
}

// --- receiving -----------------------------------------------------------------------------------

ucs_status_t UcxDriver::on_message(void* self, const void*, size_t, void* data, size_t size,
                                   const ucp_am_recv_param_t* param) {
  UcxDriver& driver = *static_cast<UcxDriver*>(self);
  if (driver.closing_) return UCS_OK;
  const bool announced = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;  // `data` is no memory
  if (announced || !driver.accept({static_cast<std::byte*>(data), size}))
    driver.counters_.ucx_foreign++;
  return UCS_OK;
}

// Is it a good hello, or the next message of a peer that was heard? UCX loses none, so behind a
// gap there is only what no good peer has sent.
bool UcxDriver::accept(std::span<const std::byte> message) {
  Prefix prefix;
  if (message.size() < sizeof(prefix)) return false;
  std::memcpy(&prefix, message.data(), sizeof(prefix));
  Peer* const peer = find(prefix.to & ~kBye);
  if (!peer) return take_hello(message);
  if (!peer->heard || peer->end != Status::ok || prefix.seq != peer->expected) return false;
  peer->expected++;
  peer->connected = true;
  const auto frame = message.subspan(sizeof(prefix));
  if (prefix.to & kBye) {
    end(*peer, Status::peer_closed);
  } else if (events_ >= budget_) {
    kept_.emplace_back(peer->id, std::vector(frame.begin(), frame.end()));
  } else {
    hand_up(peer->id, frame);
  }
  return true;
}

void UcxDriver::hand_up(PeerId from, std::span<const std::byte> frame) {
  events_++;
  sink_.packet(from, frame);
}

void UcxDriver::tell_done() {
  done_.swap(telling_);
  for (const auto& [cookie, status] : telling_) sink_.done(cookie, status);
  events_ += static_cast<unsigned>(telling_.size());
  telling_.clear();
}

unsigned UcxDriver::poll(uint64_t now_ns, unsigned budget) {
  now_ns_ = now_ns;
  events_ = 0;
  tell_done();
  budget_ = events_ + budget;  // for frames
  for (; !kept_.empty() && events_ < budget_; kept_.pop_front())
    hand_up(kept_.front().first, kept_.front().second);
  if (!kept_.empty()) return events_;
  ucx_->worker_progress(ucx_.handle);
  if (now_ns_ >= greet_at_ns_) greet_again();
  if (ends_ && kept_.empty()) report_ends();
  return events_;
}

// --- memory --------------------------------------------------------------------------------------

// Everything about a key is checked before UCX sees it.
Status UcxDriver::reg(void* base, uint64_t bytes, uint32_t access, Region* out) {
  if (!has_memory_ || (access & ~(kRemoteRead | kRemoteWrite))) return Status::unsupported;
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
  if (ucx_->mem_map(ucx_.context, &params, &memory) != UCS_OK) return Status::no_memory;
  *out = Region{base, bytes, access, {}, reinterpret_cast<uintptr_t>(memory), out->label};
  void* rkey = nullptr;
  size_t size = 0;
  const bool packed = ucx_->rkey_pack(ucx_.context, memory, &rkey, &size) == UCS_OK;
  const bool fits = packed && size <= kRkeyMax;
  KeyHead head;
  head.access = access;
  head.base = reinterpret_cast<uintptr_t>(base);
  head.bytes = bytes;
  if (fits) out->key = write_key(head, {static_cast<const std::byte*>(rkey), size});
  if (packed) ucx_->rkey_buffer_release(rkey);
  if (!fits) dereg(*out);
  return fits ? Status::ok : Status::unsupported;
}

void UcxDriver::dereg(Region& region) {
  (void)ucx_->mem_unmap(ucx_.context, reinterpret_cast<ucp_mem_h>(region.driver_data));
  region = Region{};
}

Status UcxDriver::import(PeerId id, std::span<const std::byte> bytes, uint32_t* remote) {
  if (!has_memory_) return Status::unsupported;
  Import import{id, nullptr, {}};
  const Peer* const peer = find(id);
  if (!peer || !peer->ep || !parse_key(bytes, &import.key) ||
      ucx_->ep_rkey_unpack(peer->ep, bytes.data() + sizeof(KeyHead), &import.rkey) != UCS_OK)
    return Status::invalid;
  *remote = next_import_++;
  imports_[*remote] = import;
  return Status::ok;
}

void UcxDriver::drop(uint32_t remote) {
  ucx_->rkey_destroy(imports_[remote].rkey);
  imports_.erase(remote);
}

// A flush behind the pieces tells that they have reached the peer.
Status UcxDriver::move(const Rma& rma, Cap cap) {
  if (!has_memory_) return Status::unsupported;
  const auto found = imports_.find(rma.remote);
  if (found == imports_.end()) return Status::invalid;
  const auto& [id, rkey, key] = found->second;
  Peer& peer = *peers_[id];
  if (!(key.access & (cap == kPut ? kRemoteWrite : kRemoteRead)) || rma.remote_offset > key.bytes ||
      rma.bytes > key.bytes - rma.remote_offset)
    return Status::invalid;
  if (peer.end != Status::ok) return peer.end;
  if (rma.bytes == 0) return Status::ok;
  if (rma.cookie == 0) return Status::again;
  auto* const move = new Move{&peer, rma.cookie};
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = on_moved;
  param.user_data = move;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const auto began = [move](void* request) {
    if (UCS_PTR_IS_ERR(request)) move->status = Status::denied;
    move->open += UCS_PTR_IS_PTR(request);
  };
  uint64_t at = key.base + rma.remote_offset;
  for (const auto& [base, bytes] : std::span(rma.pieces, rma.piece_count)) {
    if (bytes > 0)
      began(cap == kPut ? ucx_->put_nbx(peer.ep, base, bytes, at, rkey, &param)
                        : ucx_->get_nbx(peer.ep, base, bytes, at, rkey, &param));
    at += bytes;
  }
  began(ucx_->ep_flush_nbx(peer.ep, &param));
  const Status status = move->open > 0 ? Status::pending : move->status;
  if (status == Status::pending) {
    peer.moves++;
    open_++;
  } else {
    delete move;
  }
  return status;
}

void UcxDriver::on_moved(void* request, ucs_status_t status, void* moved) {
  Move* const move = static_cast<Move*>(moved);
  UcxDriver& driver = *move->peer->driver;
  driver.ucx_->request_free(request);
  if (status != UCS_OK) move->status = Status::peer_dead;
  if (--move->open > 0) return;
  driver.done_.push_back({move->cookie, move->status});
  move->peer->moves--;
  driver.open_--;
  delete move;
}

// --- sleeping ------------------------------------------------------------------------------------

// UCX's tcp arms itself though something has come.
Status UcxDriver::arm(int* fd) {
  if (!done_.empty() || !kept_.empty() || ends_ || ucx_->worker_arm(ucx_.handle) != UCS_OK)
    return Status::again;
  *fd = ucx_.descriptor;
  pollfd set{*fd, POLLIN, 0};
  return ::poll(&set, 1, 0) == 0 ? Status::ok : Status::again;
}

std::string UcxDriver::text(PeerId id) const {
  const Peer& peer = *peers_[id];
  char* printed = nullptr;
  size_t bytes = 0;
  FILE* const out = peer.ep ? open_memstream(&printed, &bytes) : nullptr;
  if (!out) return peer.path;
  ucx_->ep_print_info(peer.ep, out);
  fclose(out);
  std::string path = transports_in({printed, bytes});
  free(printed);
  return path;
}

}  // namespace ucx
}  // namespace torii
