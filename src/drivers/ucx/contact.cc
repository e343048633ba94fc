// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// First contact and the end of a peer. Each of two processes sends the other a hello: the one that
// connects at once, the other one when it has heard it. What UCX would make of a stranger's address
// is not asked before the hello's tag has shown that it comes from a member of the job.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "drivers/ucx/nic.h"

namespace torii::ucx {
namespace {

constexpr uint64_t kFirstGapNs = 50000000;
constexpr uint64_t kGapMaxNs = 1000000000;
constexpr size_t kHellosMax = 64;  // that wait for poll()
constexpr int kSpinsToClose = 1000;
constexpr int kTriesToClose = 500;  // of a millisecond

}  // namespace

Status UcxDriver::connect(std::span<const std::byte> address, PeerId* id, std::string* why) {
  Address to;
  if (!parse_address(address, &to)) {
    *why = format_text(
        "ucx: an address of %zu bytes was changed on its way, or is none; all processes of a job "
        "must use the same version of Torii",
        address.size());
    return Status::invalid;
  }
  if (to.version != ucx_.version()) {
    *why = format_text(
        "ucx: the peer has UCX %u.%u, this process %u.%u; install the same on all nodes",
        to.version >> 8, to.version & 0xff, ucx_.version() >> 8, ucx_.version() & 0xff);
    return Status::unreachable;
  }
  ucs_status_t status = UCS_OK;
  Peer* const peer = meet(to, &status);
  if (!peer) {
    *why = format_text(
        "ucx: UCX finds no way to the peer by '%s' (%s); compare what ucx_info -d lists on both "
        "nodes",
        transports_.names.c_str(), ucx_->status_string(status));
    return Status::unreachable;
  }
  if (peer->end != Status::ok) {
    *why = format_text("ucx: this process is gone (%s)", status_text(peer->end));
    return peer->end;
  }
  if (!peer->greeted) greet(*peer);
  if (!peer->greeted) {
    *why =
        "ucx: the address has no key that this process can use; let libcrypto permit the same "
        "curves on all nodes";
    return Status::invalid;
  }
  peer->connected = true;
  *id = peer->id;
  return Status::ok;
}

// The process with this address, made if need be. Null with UCX's reason in *status.
UcxDriver::Peer* UcxDriver::meet(const Address& address, ucs_status_t* status) {
  if (const auto known = by_key_.find(address.key); known != by_key_.end())
    return find(known->second);
  *status = UCS_ERR_EXCEEDS_LIMIT;
  if (peers_.size() == caps_.peers_max) return nullptr;
  auto peer = std::make_unique<Peer>();
  peer->driver = this;
  peer->id = static_cast<PeerId>(peers_.size());
  peer->key = address.key;
  peer->expected = static_cast<uint32_t>(random_.next());
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, peer.get()};
  *status = ucx_->ep_create(ucx_.handle(), &params, &peer->ep);
  if (*status != UCS_OK) return nullptr;
  by_key_[peer->key] = peer->id;
  peers_.push_back(std::move(peer));
  return peers_.back().get();
}

// A tag of 16 bytes: the first half of a key that the hello itself is a purpose of.
bool UcxDriver::make_tag(std::span<const std::byte> hello, const PublicKey& key, bool own,
                         std::byte* out) {
  PairKeys pair;
  std::string purpose = purpose_;
  purpose.append(reinterpret_cast<const char*>(hello.data()), hello.size());
  if (!keys_->agree(key, purpose, &pair)) return false;
  std::copy_n((own ? pair.to : pair.from).begin(), kTagBytes, out);
  return true;
}

void UcxDriver::greet(Peer& peer) {
  const Who self = members_ ? members_->self() : Who{};
  Message* const message = new_message(peer.id);
  std::byte* const bytes = message->bytes.data();
  const size_t size = write_hello({peer.id, peer.expected, self, own_}, bytes);
  if (!make_tag({bytes, size}, peer.key, true, bytes + size))
    return free_messages_.push_back(message);
  message->size = size + kTagBytes;
  if (!std::exchange(peer.greeted, true) && !peer.heard) greeting_.push_back(peer.id);
  peer.greeted_ns = now_ns_;
  peer.gap_ns = std::clamp(2 * peer.gap_ns, kFirstGapNs, kGapMaxNs);
  post(message, kHello);
}

// A hello that came while its receiver could not ask who that is, was not heard.
void UcxDriver::greet_again() {
  std::erase_if(greeting_,
                [&](PeerId id) { return peers_[id]->heard || peers_[id]->end != Status::ok; });
  for (const PeerId id : greeting_) {
    Peer& peer = *peers_[id];
    if (peer.open == 0 && now_ns_ - peer.greeted_ns >= peer.gap_ns) greet(peer);
  }
}

ucs_status_t UcxDriver::on_hello(void* self, const void*, size_t, void* data, size_t size,
                                 const ucp_am_recv_param_t* param) {
  UcxDriver& driver = *static_cast<UcxDriver*>(self);
  const bool announced = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
  if (driver.closing_) return UCS_OK;
  if (announced || size > kHelloMax || driver.hellos_.size() == kHellosMax) {
    driver.counters_.ucx_foreign++;
    return UCS_OK;
  }
  const auto* const bytes = static_cast<std::byte*>(data);
  driver.hellos_.emplace_back(bytes, bytes + size);
  return UCS_OK;
}

void UcxDriver::take_hellos() {
  for (const auto& message : std::exchange(hellos_, {}))
    if (!take_hello(message)) counters_.ucx_foreign++;
}

// False: nobody who may talk to this process has sent that.
bool UcxDriver::take_hello(std::span<const std::byte> message) {
  Hello hello;
  Address address;
  if (!parse_hello(message, &hello, &address) || address.version != ucx_.version()) return false;
  const auto known = by_key_.find(address.key);
  Peer* peer = known == by_key_.end() ? nullptr : find(known->second);
  if (peer && (peer->heard || peer->end != Status::ok)) return true;  // sent again meanwhile
  std::byte tag[kTagBytes];
  if (!make_tag(message.first(message.size() - kTagBytes), address.key, false, tag) ||
      !std::ranges::equal(message.last(kTagBytes), tag))
    return false;
  if (!peer && (!members_ || !members_->admits(hello.who, hello.address))) return false;
  ucs_status_t status = UCS_OK;
  if (!peer) peer = meet(address, &status);
  if (!peer) {
    TORII_WARN("ucx: UCX finds no way to rank %u, which has come by '%s': %s", hello.who.rank,
               transports_.names.c_str(), ucx_->status_string(status));
    return true;
  }
  peer->heard = true;
  peer->path = text(peer->id);
  peer->number = hello.number;
  peer->seq = hello.first;
  if (!peer->greeted) greet(*peer);
  return true;
}

// --- the end -------------------------------------------------------------------------------------

ucs_status_t UcxDriver::on_bye(void* self, const void*, size_t, void* data, size_t size,
                               const ucp_am_recv_param_t* param) {
  UcxDriver& driver = *static_cast<UcxDriver*>(self);
  const bool announced = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
  Peer* peer = nullptr;
  if (driver.accept({static_cast<std::byte*>(data), announced ? 0 : size}, &peer))
    driver.end(*peer, Status::peer_closed);
  return UCS_OK;
}

void UcxDriver::on_error(void* lost, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(lost);
  if (peer.end != Status::ok || peer.driver->closing_) return;
  TORII_INFO("ucx: UCX has lost a peer: %s", peer.driver->ucx_->status_string(status));
  peer.driver->end(peer, Status::peer_dead);
}

void UcxDriver::end(Peer& peer, Status why) {
  if (peer.end != Status::ok) return;
  peer.end = why;
  ending_.push_back(peer.id);
}

// Closing an endpoint ends all that is under way to the peer.
void UcxDriver::report_ends() {
  for (const PeerId id : std::exchange(ending_, {})) {
    Peer& peer = *peers_[id];
    close_endpoint(peer);
    finish(&peer.written, peer.end);
    finish(&peer.flushed, peer.end);
    handed_up_ += tell_done();
    if (!peer.connected) continue;
    sink_.peer_down(id, peer.end);
    handed_up_++;
  }
}

void UcxDriver::close_endpoint(Peer& peer) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = [](void* request, ucs_status_t, void* driver) {
    static_cast<UcxDriver*>(driver)->ucx_->request_free(request);
  };
  param.user_data = this;
  if (peer.ep) (void)ucx_->ep_close_nbx(std::exchange(peer.ep, nullptr), &param);
}

// UCX tells nobody that a process ends in good order.
void UcxDriver::say_bye() {
  for (const auto& peer : peers_) {
    if (!peer->heard || peer->end != Status::ok) continue;
    Message* const message = new_message(peer->id);
    message->size = kPrefixBytes;
    write_prefix({peer->number, peer->seq++}, message->bytes.data());
    post(message, kBye);
  }
  const ucp_request_param_t param{};
  void* const request = ucx_->worker_flush_nbx(ucx_.handle(), &param);
  if (UCS_PTR_IS_PTR(request)) {
    const auto under_way = [&] { return ucx_->request_check_status(request) == UCS_INPROGRESS; };
    for (int i = 0; i < kSpinsToClose + kTriesToClose && under_way(); i++)
      if (ucx_->worker_progress(ucx_.handle()) == 0 && i >= kSpinsToClose) usleep(1000);
    ucx_->request_free(request);
  }
  for (const auto& peer : peers_) close_endpoint(*peer);
  while (ucx_->worker_progress(ucx_.handle()) != 0) continue;
}

}  // namespace torii::ucx
