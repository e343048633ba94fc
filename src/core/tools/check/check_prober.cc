// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/check/check_prober.h"

#include <algorithm>
#include <cstring>

#include "core/tools/check/check_plan.h"
#include "core/trust/siphash.h"

namespace torii::check {
namespace {

constexpr size_t kTagged = Probe::kBytes - 8;  // bytes before the tag

template <typename T>
std::byte* store(std::byte* out, T value) {
  for (size_t i = 0; i < sizeof(T); i++) *out++ = static_cast<std::byte>(value >> (8 * i));
  return out;
}

template <typename T>
const std::byte* load(const std::byte* in, T* value) {
  *value = 0;
  for (size_t i = 0; i < sizeof(T); i++) *value |= T{static_cast<uint8_t>(*in++)} << (8 * i);
  return in;
}

uint64_t tag_of(const Secret& secret, const std::byte* probe) {
  SipHash hash(secret);
  hash.add({probe, kTagged});
  return hash.finish();
}

}  // namespace

void Probe::write(const Secret& secret, std::byte* out) const {
  std::byte* at = out;
  for (const uint32_t field : {kind, from, to, rail, number, size}) at = store(at, field);
  at = store(at, sent_ns);
  at = store(at, uint64_t{0});
  store(at, tag_of(secret, out));
}

bool Probe::read(std::span<const std::byte> frame, const Secret& secret, Probe* out) {
  if (frame.size() < kBytes) return false;
  const std::byte* at = frame.data();
  for (uint32_t* field : {&out->kind, &out->from, &out->to, &out->rail, &out->number, &out->size})
    at = load(at, field);
  load(at, &out->sent_ns);
  uint64_t tag;
  load(frame.data() + kTagged, &tag);
  return tag == tag_of(secret, frame.data());
}

std::unique_ptr<Prober> Prober::open(const DriverInfo& info, const std::string& name,
                                     uint32_t local_peers, std::string* why) {
  auto prober = std::make_unique<Prober>();
  prober->name_ = info.name;
  prober->network_ = info.network;
  DriverEnv env;
  env.sink = prober.get();
  env.counters = &prober->counters_;
  env.local_peers = local_peers;
  env.name = info.name;
  if (info.network) prober->keys_ = KeyPair::draw(why);
  env.keys = prober->keys_.get();
  prober->driver_ = open_driver(name, env, why);
  if (!prober->driver_) return nullptr;
  prober->zeros_.resize(prober->driver_->caps().mtu);
  return prober;
}

Prober::~Prober() {
  if (driver_ && all_ != kNoPeer) driver_->leave(all_);
  driver_.reset();  // before what it may still read
}

Bytes Prober::address() const {
  Bytes out(driver_->caps().address_bytes);
  driver_->address(out.data());
  return out;
}

void Prober::begin(uint32_t self, uint32_t size, const Secret& secret) {
  self_ = self;
  secret_ = secret;
  peers_.resize(size);
}

Status Prober::connect(uint32_t rank, std::span<const std::byte> address) {
  Peer& peer = peers_[rank];
  if (peer.id != kNoPeer) return Status::ok;
  peer.answered.resize(kNumberMax);
  peer.note.clear();
  return driver_->connect(address, &peer.id, &peer.note);
}

bool Prober::send(PeerId to, uint8_t rail, const Probe& probe, uint32_t size) {
  std::byte head[Probe::kBytes];
  probe.write(secret_, head);
  const uint32_t body = size - static_cast<uint32_t>(sizeof(head));
  Tx tx;
  tx.peer = to;
  tx.head = head;
  tx.head_bytes = sizeof(head);
  tx.rail = rail;
  iovec piece{zeros_.data(), body};
  tx.pieces = &piece;
  tx.piece_count = body > 0;
  tx.body_bytes = body;
  if (body > driver_->caps().inline_max) tx.cookie = ++cookie_;
  return driver_->send({&tx, 1}) == 1;
}

bool Prober::ask(uint32_t rank, uint8_t rail, uint32_t size, uint64_t now_ns) {
  Peer& peer = peers_[rank];
  if (peer.id == kNoPeer || peer.ended || peer.next == kNumberMax) return false;
  Probe probe;
  probe.kind = Probe::question;
  probe.from = self_;
  probe.to = rank;
  probe.rail = rail < kRailsMax ? rail : 0;
  probe.number = peer.next;
  probe.size = std::clamp<uint32_t>(size, Probe::kBytes, driver_->caps().mtu);
  probe.sent_ns = now_ns;
  if (!send(peer.id, rail, probe, probe.size)) return false;
  peer.next++;
  if (probe.size == Probe::kBytes) peer.rails[probe.rail].sent++;
  return true;
}

bool Prober::join(std::string* why) {
  LossyGroups* const groups = driver_->lossy_groups();
  if (!groups) {
    *why = name_ + ": this driver has no multicast";
    return false;
  }
  LossyMember membership;
  std::byte* at = membership.key.data();
  for (const char* const part :
       {"torii-check 1", "torii-check 2", "torii-check 3", "torii-check 4"})
    at = store(at, siphash(secret_, std::as_bytes(std::span(part, 13))));
  membership.number = self_;
  membership.members = size();
  const Status status = groups->join_lossy(membership, &all_);
  if (status != Status::ok) *why = name_ + ": a group cannot be joined: " + status_text(status);
  return status == Status::ok;
}

void Prober::tell_all() {
  if (all_ == kNoPeer) return;
  Probe probe;
  probe.kind = Probe::to_all;
  probe.from = self_;
  send(all_, kFirstRail, probe, Probe::kBytes);
}

void Prober::packet(PeerId from, std::span<const std::byte> frame) {
  Probe probe;
  if (!Probe::read(frame, secret_, &probe) || probe.from >= peers_.size() || probe.from == self_)
    return;
  if (probe.kind == Probe::to_all) peers_[probe.from].heard_by_all_ns = now_ns_;
  if (probe.to != self_ || probe.number >= kNumberMax || probe.rail >= kRailsMax) return;
  if (probe.kind == Probe::question && probe.size == frame.size()) answer(from, probe);
  if (probe.kind == Probe::answer) take_answer(probe);
}

void Prober::answer(PeerId from, const Probe& question) {
  Peer& peer = peers_[question.from];
  if (peer.heard.empty()) peer.heard.resize(kNumberMax);
  if (!peer.heard[question.number] && question.size == Probe::kBytes)
    peer.rails[question.rail].heard++;
  peer.heard[question.number] = true;
  if (from == kNoPeer) return;
  Probe answer = question;
  answer.kind = Probe::answer;
  answer.from = self_;
  answer.to = question.from;
  send(from, kHeardRail, answer, Probe::kBytes);
}

void Prober::take_answer(const Probe& answer) {
  Peer& peer = peers_[answer.from];
  if (answer.number >= peer.next || peer.answered[answer.number]) return;
  peer.answered[answer.number] = true;
  Rail& rail = peer.rails[answer.rail];
  rail.longest = std::max(rail.longest, answer.size);
  // The clock that poll() was given may be as old as the last round.
  const uint64_t now_ns = clock_ns();
  if (answer.size == Probe::kBytes && now_ns > answer.sent_ns)
    rail.trip_ns.push_back(now_ns - answer.sent_ns);
}

void Prober::peer_down(PeerId id, Status) {
  for (Peer& peer : peers_)
    if (peer.id == id) peer.ended = true;
}

}  // namespace torii::check
