// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Lossy groups: each frame is sealed with the group's key, and taken once. There is no window.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "core/link/crc32c.h"
#include "core/link/link_driver.h"

namespace torii::link {

// Keys of the group for this link, each for one purpose.
bool LinkDriver::set_keys(const LossyMember& membership, LossyGroup* group,
                          LossyMember* below) const {
  SecretKey own, secret;
  const std::string purpose = purpose_ + " group";
  if (!derive_key(membership.key, purpose, &own) ||
      !derive_key(membership.key, purpose + " below", &below->key))
    return false;
  std::copy_n(own.begin(), sizeof(TagKey), group->to.tag.begin());
  group->from.tag = group->to.tag;
  group->name = load_little<uint32_t>(own.data() + sizeof(TagKey));
  group->trace = load_little<uint64_t>(own.data() + sizeof(TagKey) + 8);
  if (!cipher_) return true;
  return derive_key(membership.key, purpose + " " + cipher_name(cipher_->cipher()), &secret) &&
         cipher_->add_group_keys(secret, static_cast<uint16_t>(membership.number), &group->to,
                                 &group->from);
}

Status LinkDriver::join_lossy(const LossyMember& membership, PeerId* id) {
  if (!is_valid(membership)) return Status::invalid;
  auto group = std::make_unique<LossyGroup>();
  LossyMember below = membership;
  if (!set_keys(membership, group.get(), &below)) return Status::io_error;
  // Numbers and nonces would begin again.
  if (std::ranges::find(group_traces_, group->trace) != group_traces_.end()) return Status::invalid;
  const Status status = below_->lossy_groups()->join_lossy(below, id);
  if (status != Status::ok) return status;
  group_traces_.push_back(group->trace);
  group->id = *id;
  group->number = membership.number;
  if (membership.hears) group->numbers.resize(membership.members);
  if (!lossy_outgoing_) {
    const size_t room = below_->caps().mtu;
    lossy_outgoing_ = std::make_unique<LossyOutgoing>();
    lossy_outgoing_->bodies = std::make_unique_for_overwrite<std::byte[]>(batch_ * room);
    lossy_outgoing_->gathered = std::make_unique_for_overwrite<std::byte[]>(room);
  }
  lossy_groups_.push_back(std::move(group));
  return Status::ok;
}

// An upcall may leave the group of the frame that it was given.
void LinkDriver::leave(PeerId id) {
  const auto it = std::ranges::find_if(lossy_groups_, [&](const auto& g) { return g->id == id; });
  TORII_ASSERT(it != lossy_groups_.end());
  (*it)->left = true;
  left_groups_.push_back(std::move(*it));
  lossy_groups_.erase(it);
  below_->leave(id);
  disconnected_++;
}

// --- sending ----------------------------------------------------------------------------------

// The frame as it leaves. One only tagged is read by the driver below where it is, if it can.
Sealing LinkDriver::prepare_lossy(const Tx& tx, const LossyGroup& group, uint64_t number, Tx* out) {
  LossyOutgoing& outgoing = *lossy_outgoing_;
  const size_t at = outgoing.batch.size() - 1, bytes = tx.head_bytes + tx.body_bytes;
  std::byte* const head = outgoing.heads[at];
  const bool copies = whole_tags_ || kGroupHeaderBytes + tx.head_bytes > kHeadMax ||
                      tx.piece_count > below_->caps().pieces_max;
  std::byte* const room = outgoing.bodies.get() + at * below_->caps().mtu;
  Sealing sealing;
  sealing.head = head;
  sealing.key = &group.to;
  sealing.whole = whole_tags_;
  out->peer = group.id;
  out->head = head;
  out->head_bytes = kGroupHeaderBytes;
  out->pieces = &outgoing.pieces[at];
  out->piece_count = 1;
  uint32_t crc = 0;
  if (cipher_) {
    append(tx, outgoing.gathered.get());
    sealing.body = {outgoing.gathered.get(), bytes};
    sealing.out = room;
    outgoing.pieces[at] = {room, bytes + cipher_->growth()};
  } else if (copies) {
    append(tx, room);
    sealing.body = {room, bytes};
    crc = crc32c(0, room, bytes);
    outgoing.pieces[at] = {room, bytes};
  } else {
    append(tx, head + kGroupHeaderBytes, false);
    crc = crc32c(0, head + kGroupHeaderBytes, tx.head_bytes);
    for (const iovec& piece : std::span(tx.pieces, tx.piece_count))
      crc = crc32c(crc, piece.iov_base, piece.iov_len);
    out->head_bytes += tx.head_bytes;
    out->pieces = tx.pieces;
    out->piece_count = tx.piece_count;
  }
  out->body_bytes =
      cipher_ || copies ? static_cast<uint32_t>(outgoing.pieces[at].iov_len) : tx.body_bytes;
  write_group_header({number, group.number, group.name, whole_tags_, cipher_ != nullptr}, crc,
                     head);
  return sealing;
}

size_t LinkDriver::send_lossy(LossyGroup& group, std::span<const Tx> batch) {
  auto& [inner, sealings, pieces, heads, bodies, gathered] = *lossy_outgoing_;
  size_t taken = 0;
  while (taken < batch.size()) {
    inner.clear();
    sealings.clear();
    for (const Tx& tx : batch.subspan(taken, std::min(batch.size() - taken, batch_))) {
      TORII_ASSERT(tx.head_bytes <= kHeadMax && tx.head_bytes + tx.body_bytes <= caps_.mtu);
      const uint64_t number = group.sent + inner.size() + 1;
      Tx& out = inner.emplace_back();
      const Sealing sealing = prepare_lossy(tx, group, number, &out);
      // The memory of what is encrypted is used again for the next one.
      if (cipher_) {
        cipher_->seal({&sealing, 1});
      } else {
        sealings.emplace_back(sealing);
      }
    }
    if (!cipher_) tag_.seal(sealings);
    const size_t count = below_->send(inner);
    group.sent += count;
    for (const Tx& tx : batch.subspan(taken, count))
      if (tx.cookie) completed_.push_back({tx.cookie, Status::ok});
    taken += count;
    if (count < inner.size()) break;
  }
  return taken;
}

// --- receiving --------------------------------------------------------------------------------

// At most kSipLanes frames from the group.
void LinkDriver::take_lossy(LossyGroup& group, std::span<Packet> all) {
  Packet* packets[kSipLanes];
  GroupHeader headers[kSipLanes];
  Opening openings[kSipLanes];
  const uint64_t* right[kSipLanes] = {};
  uint64_t tags[kSipLanes];
  size_t count = 0, tagged = 0;
  for (Packet& packet : all) {
    GroupHeader& header = headers[count];
    if (!parse_group_header(packet.frame, &header)) {
      counters_.link_corrupt++;
    } else if (header.group != group.name || header.sender == group.number) {
      counters_.link_group_foreign++;
    } else {
      if (!header.whole && !header.sealed) {
        openings[tagged] = opening_of(packet.frame, header, group.from);
        right[count] = &tags[tagged++];
      }
      packets[count++] = &packet;
    }
  }
  if (tagged > 0) TagSeal::expect({openings, tagged}, tags);
  for (size_t i = 0; i < count && !group.left; i++)
    take_lossy(group, *packets[i], headers[i], right[i]);
}

// `tag`: what it ought to be, unless it covers the payload, or there is none.
void LinkDriver::take_lossy(LossyGroup& group, Packet& packet, const GroupHeader& header,
                            const uint64_t* tag) {
  std::span<const std::byte> payload = packet.frame.subspan(kGroupHeaderBytes);
  if (!header.sealed && !checksum_is_right(packet.frame)) {
    counters_.link_corrupt++;
    return;
  }
  Opening opening = opening_of(packet.frame, header, group.from);
  opening.out = opened_.get();
  const bool as_here = header.sealed == (cipher_ != nullptr) && (header.whole || !whole_tags_);
  const bool genuine = as_here && header.sender < group.numbers.size() &&
                       (header.sealed ? payload.size() <= opened_max_ && cipher_->open(opening)
                        : tag         ? TagSeal::has(packet.frame.data(), *tag)
                                      : tag_.open(opening));
  if (!genuine) {
    counters_.link_forged++;
    return;
  }
  if (header.sealed) payload = {opened_.get(), payload.size() - cipher_->growth()};
  if (!group.numbers[header.sender].add(header.number)) {
    counters_.link_duplicates++;
    return;
  }
  packet.genuine = true;
  Packet up{group.id, payload, false, header.sender};
  upper_.packets({&up, 1});
}

}  // namespace torii::link
