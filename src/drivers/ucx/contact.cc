// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// First contact and the end of a peer. Each of two processes sends the other a hello: the one that
// connects at once, the other one when it has heard it. What UCX would make of a stranger's address
// is not asked before the hello's tag has shown that it comes from a member of the job.
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "drivers/ucx/nic.h"

namespace torii::ucx {
namespace {

constexpr uint64_t kGreetNs = 100000000;  // between two hellos
constexpr uint64_t kNever = ~uint64_t{0};
constexpr int kTriesToClose = 500;  // of a millisecond

}  // namespace

Status UcxDriver::connect(std::span<const std::byte> address, PeerId* id, std::string* why) {
  AddressHead to;
  if (!parse_address(address, &to)) {
    *why = format_text(
        "ucx: an address of %zu bytes was changed on its way, or is none; all processes of a job "
        "must use the same version of Torii",
        address.size());
    return Status::invalid;
  }
  if (to.version != ucx_.version) {
    *why = format_text(
        "ucx: the peer has UCX %u.%u, this process %u.%u; install the same on all nodes",
        to.version >> 8, to.version & 0xff, ucx_.version >> 8, ucx_.version & 0xff);
    return Status::unreachable;
  }
  ucs_status_t status = UCS_OK;
  Peer* const peer = meet(to.key, address, &status);
  if (!peer) {
    *why = format_text(
        "ucx: UCX finds no way to the peer by '%s' (%s); compare what ucx_info -d lists on both "
        "nodes",
        transports_.c_str(), ucx_->status_string(status));
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

// The process with this key, made if need be. Null with UCX's reason in *status.
UcxDriver::Peer* UcxDriver::meet(const PublicKey& key, std::span<const std::byte> address,
                                 ucs_status_t* status) {
  if (const auto known = by_key_.find(key); known != by_key_.end())
    return peers_[known->second].get();
  *status = UCS_ERR_EXCEEDS_LIMIT;
  if (peers_.size() == caps_.peers_max) return nullptr;
  auto peer = std::make_unique<Peer>();
  peer->driver = this;
  peer->id = static_cast<PeerId>(peers_.size());
  peer->key = key;
  *status = UCS_ERR_IO_ERROR;
  if (getrandom(&peer->expected, sizeof(peer->expected), 0) != sizeof(peer->expected))
    return nullptr;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data() + sizeof(AddressHead));
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, peer.get()};
  *status = ucx_->ep_create(ucx_.handle, &params, &peer->ep);
  if (*status != UCS_OK) return nullptr;
  by_key_[key] = peer->id;
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
  Hello hello;
  hello.number = peer.id;
  hello.first = peer.expected;
  hello.job = self.job;
  hello.rank = self.rank;
  Message* const message = new_message(peer);
  std::byte* const bytes = message->bytes.data();
  const size_t size = sizeof(hello) + own_.size();
  std::memcpy(bytes, &hello, sizeof(hello));
  std::ranges::copy(own_, bytes + sizeof(hello));
  if (!make_tag({bytes, size}, peer.key, true, bytes + size)) return recycle(message);
  peer.greeted = true;
  if (!peer.heard && greet_at_ns_ == kNever) greet_at_ns_ = now_ns_ + kGreetNs;
  post(message, size + kTagBytes);
}

// A hello that came while its receiver could not ask who that is, was not heard.
void UcxDriver::greet_again() {
  greet_at_ns_ = kNever;
  for (const auto& peer : peers_)
    if (peer->greeted && !peer->heard && peer->end == Status::ok) {
      if (peer->open == 0) greet(*peer);
      greet_at_ns_ = now_ns_ + kGreetNs;
    }
}

// False: nobody who may talk to this process has sent that.
bool UcxDriver::take_hello(std::span<const std::byte> message) {
  Hello hello;
  AddressHead head;
  if (!parse_hello(message, &hello, &head) || head.version != ucx_.version) return false;
  const auto said = message.first(message.size() - kTagBytes);
  const auto address = said.subspan(sizeof(hello));
  const auto known = by_key_.find(head.key);
  Peer* peer = known == by_key_.end() ? nullptr : find(known->second);
  if (peer && (peer->heard || peer->end != Status::ok)) return true;  // sent again meanwhile
  std::byte tag[kTagBytes];
  if (!make_tag(said, head.key, false, tag) || !std::ranges::equal(message.last(kTagBytes), tag) ||
      (!peer && (!members_ || !members_->admits({hello.job, hello.rank}, address))))
    return false;
  ucs_status_t status = UCS_OK;
  if (!peer) peer = meet(head.key, address, &status);
  if (!peer) {
    TORII_WARN("ucx: UCX finds no way to rank %u, which has come by '%s': %s", hello.rank,
               transports_.c_str(), ucx_->status_string(status));
    return true;
  }
  peer->heard = true;
  peer->path = text(peer->id);
  peer->number = hello.number;
  peer->seq = hello.first;
  // Once more: the peer may not have heard the hello that came before it knew this process. It
  // hears this one, which comes before all frames.
  greet(*peer);
  return true;
}

// --- the end -------------------------------------------------------------------------------------

void UcxDriver::on_error(void* lost, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(lost);
  UcxDriver& driver = *peer.driver;
  if (peer.end == Status::ok && !driver.closing_)
    TORII_INFO("ucx: UCX has lost a peer: %s", driver.ucx_->status_string(status));
  driver.end(peer, Status::peer_dead);
}

void UcxDriver::end(Peer& peer, Status why) {
  if (peer.end != Status::ok) return;
  peer.end = why;
  ends_ = true;
}

// Closing an endpoint ends all that is under way to the peer.
void UcxDriver::report_ends() {
  ends_ = false;
  for (size_t i = 0; i < peers_.size(); i++) {  // upcalls may add some
    Peer& peer = *peers_[i];
    if (peer.end == Status::ok || peer.down) continue;
    close_endpoint(peer);
    tell_done();
    peer.down = peer.moves == 0;
    ends_ |= !peer.down;
    if (!peer.down || !peer.connected) continue;
    sink_.peer_down(peer.id, peer.end);
    events_++;
  }
}

void UcxDriver::close_endpoint(Peer& peer) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  if (!peer.ep) return;
  void* const request = ucx_->ep_close_nbx(std::exchange(peer.ep, nullptr), &param);
  if (UCS_PTR_IS_PTR(request)) ucx_->request_free(request);
}

// UCX tells nobody that a process ends in good order.
void UcxDriver::say_bye() {
  for (const auto& peer : peers_) {
    if (!peer->heard || peer->end != Status::ok) continue;
    Message* const message = new_message(*peer);
    const Prefix bye{peer->number | kBye, peer->seq++};
    std::memcpy(message->bytes.data(), &bye, sizeof(bye));
    post(message, sizeof(bye));
  }
  const ucp_request_param_t param{};
  void* const request = ucx_->worker_flush_nbx(ucx_.handle, &param);
  if (UCS_PTR_IS_PTR(request)) {
    const auto under_way = [&] { return ucx_->request_check_status(request) == UCS_INPROGRESS; };
    for (int i = 0; i < kTriesToClose && under_way(); i++)
      if (ucx_->worker_progress(ucx_.handle) == 0) usleep(1000);
    ucx_->request_free(request);
  }
  for (const auto& peer : peers_) close_endpoint(*peer);
  while (ucx_->worker_progress(ucx_.handle) != 0) continue;
}

}  // namespace torii::ucx
