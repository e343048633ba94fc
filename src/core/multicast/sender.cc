// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/sender.h"

#include <algorithm>

namespace torii::multicast {
namespace {

// Beside the numbers of nodes.
constexpr uint32_t kAll = ~0u;
constexpr uint32_t kNone = ~0u - 1;

}  // namespace

void Sender::begin(uint64_t pos, std::span<const std::byte> message) {
  message_ = message.data();
  start_ = copied_ = sent_ = batch_end_ = pos;
  bytes_ = message.size();
  end_ = pos + whole_granules(bytes_);
  need_ = 0;
}

// Bytes of the piece that begins here: none crosses the end of the ring.
uint64_t Sender::piece_at(uint64_t pos) const {
  return std::min(
      {outgoing_.piece_bytes(), start_ + bytes_ - pos, ring_.size() - (pos & (ring_.size() - 1))});
}

void Sender::advance(uint64_t done, uint64_t now) {
  retry_at_ = UINT64_MAX;
  bool room = true;
  while (sent_ < end_ && room) {
    room = fill(done);
    if (!hand_over(now)) {
      retry_at_ = now + kRefusedNs;
      return;
    }
  }
  // Where nobody has asked yet, nobody will tell.
  if (need_ > asked_) ask_for(need_, now);
}

// Copies what may leave to the ring. False: it is held back.
bool Sender::fill(uint64_t done) {
  need_ = 0;
  while (copied_ < end_) {
    const uint64_t bytes = piece_at(copied_);
    const uint64_t piece_end = copied_ + whole_granules(bytes);
    if (piece_end > released_ + ring_.size()) {
      need_ = piece_end - ring_.size();
    } else if (number_ - acked_ >= window_.frames()) {
      held_back_ = true;
      need_ = ends_[acked_ % kFrames] & ~kAsked;
    }
    if (need_) return false;
    // There is room: no node needs what was there, nor does this one.
    ring_.place(copied_, {message_ + (copied_ - start_), bytes}, std::max(done, released_));
    copied_ = piece_end;
    ends_[number_ % kFrames] = piece_end;
    if (number_ - asked_number_ >= std::max(window_.frames() / 2, 1u) ||
        piece_end >= releases_.asked() + ring_.size() / 2) {
      ends_[number_ % kFrames] |= kAsked;
      asked_number_ = number_;
      asked_ = std::max(asked_, piece_end);
      releases_.on_asked(outgoing_.self(), piece_end, false);
    }
    number_++;
  }
  return true;
}

// In order: all, then deaf nodes; or the branches of the tree.
uint32_t Sender::next_target(uint32_t after) const {
  if (batch_path_ == Path::tree) {
    const uint32_t next = after == kAll ? 0 : after + 1;
    return next < outgoing_.forwards(outgoing_.self()) ? next : kNone;
  }
  if (batch_path_ == Path::multicast) return kNone;
  const uint32_t next = outgoing_.deaf().next(after == kAll ? 0 : after + 1);
  return next < outgoing_.nodes() ? next : kNone;
}

// False: the channel has no room.
bool Sender::hand_over(uint64_t now) {
  while (sent_ < copied_) {
    if (batch_end_ == sent_) {
      for (size_t i = 0; i < kBurst && batch_end_ < copied_; i++)
        batch_end_ += whole_granules(piece_at(batch_end_));
      batch_path_ = outgoing_.path();
      outgoing_.note_use();
      target_ = batch_path_ == Path::tree ? next_target(kAll) : kAll;
      cursor_ = sent_;
      cursor_number_ = sent_number_;
    }
    for (; target_ != kNone; target_ = next_target(target_)) {
      while (cursor_ < batch_end_)
        if (!give()) return false;
      if (next_target(target_) == kNone) break;
      cursor_ = sent_;
      cursor_number_ = sent_number_;
    }
    sent_ = batch_end_;
    sent_number_ = cursor_number_;
    sent_at_ = now;
    beats_ = 0;
    beat_at_ = now + quiet_ns_;
  }
  return true;
}

// One burst to the present target. False: not all of it was taken.
bool Sender::give() {
  HeaderBytes heads[kBurst];
  Datagram datagrams[kBurst];
  uint64_t ends[kBurst];
  const size_t most = std::min(outgoing_.channel().largest_burst(), kBurst);
  size_t count = 0;
  for (uint64_t at = cursor_; count < most && at < batch_end_; count++) {
    const auto body = ring_.at(at, piece_at(at));
    Header header;
    header.kind = Kind::data;
    header.pos = at;
    if (ends_[(cursor_number_ + count) % kFrames] & kAsked) {
      header.flags |= kAsk;
      header.op = low_half(at + whole_granules(body.size()));
    }
    if (batch_path_ == Path::tree) {
      header.flags |= kForward;
    } else if (target_ != kAll) {
      header.flags |= kUnicast;
    }
    outgoing_.encode(header, &heads[count]);
    datagrams[count] = {heads[count], body};
    at += whole_granules(body.size());
    ends[count] = at;
  }
  const std::span<const Datagram> burst(datagrams, count);
  size_t taken;
  if (target_ == kAll) {
    taken = outgoing_.channel().multicast(burst);
  } else {
    const uint32_t node =
        batch_path_ == Path::tree ? outgoing_.forward(outgoing_.self(), target_) : target_;
    taken = outgoing_.channel().send(node, burst);
  }
  if (taken) cursor_ = ends[taken - 1];
  cursor_number_ += taken;
  return taken == count;
}

void Sender::on_released(uint64_t released, uint32_t lost, uint64_t now) {
  if (released <= released_) return;
  const uint64_t granules = (released - released_) / kGranule;
  released_ = released;
  uint32_t frames = 0;
  for (; acked_ < sent_number_ && ends_[acked_ % kFrames] <= (released | kAsked); acked_++)
    frames++;
  const uint64_t bearable =
      granules / kBearableShare + kBearablePieces * outgoing_.piece_bytes() / kGranule;
  if (frames && lost > bearable) {
    window_.lost(acked_ - 1, number_);
  } else if (frames && held_back_) {
    window_.arrived(frames);
  }
  if (frames) held_back_ = false;
  if (released_ >= sent_ && written()) beat_at_ = UINT64_MAX;
  if (beat_at_ != UINT64_MAX && beats_) {
    beats_ = 0;
    beat_at_ = now + quiet_ns_;
  }
}

void Sender::ask_for(uint64_t pos, uint64_t now) {
  asked_ = std::max(asked_, pos);
  releases_.on_asked(outgoing_.self(), pos, beats_ > 0);
  Header header;
  header.kind = Kind::heartbeat;
  header.flags = kAsk;
  header.pos = std::max(sent_, pos);
  header.op = low_half(pos);
  outgoing_.to_all(header);
  if (beats_ >= kThoroughBeat && outgoing_.path() != Path::tree) outgoing_.along_tree(header);
  beat_at_ = now + std::min(quiet_ns_ << std::min(beats_, 10u), kQuietMostNs);
}

void Sender::beat(uint64_t now) {
  if (need_ > released_ || (insists_ && sent_ > released_)) {
    beats_++;
    return ask_for(need_ > released_ ? need_ : sent_, now);
  }
  if (written() && (beats_ >= kIdleBeats || outgoing_.channel().reliable())) {
    beat_at_ = UINT64_MAX;
    return;
  }
  Header header;
  header.kind = Kind::heartbeat;
  header.pos = sent_;
  outgoing_.to_all(header);
  beat_at_ = now + (quiet_ns_ << std::min(++beats_, 6u));
}

void Sender::show(uint64_t now) {
  if (outgoing_.path() == Path::tree || now - std::max(sent_at_, shown_at_) < kShowNs) return;
  shown_at_ = now;
  Header header;
  header.kind = Kind::heartbeat;
  header.pos = sent_;
  outgoing_.to_all(header);
}

void Sender::poll(uint64_t done, uint64_t now) {
  if (now >= retry_at_) advance(done, now);
  if (now >= beat_at_) beat(now);
}

uint64_t Sender::deadline() const { return std::min(retry_at_, beat_at_); }

}  // namespace torii::multicast
