// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/member.h"

#include <algorithm>
#include <cstring>

namespace torii::multicast {
namespace {

// The fields that are the same at all nodes.
uint32_t digest_of(const Call& call) {
  uint64_t hash = static_cast<uint64_t>(call.what) + 1;
  for (const uint64_t word : {uint64_t{call.root}, call.bytes}) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return static_cast<uint32_t>(hash >> 16);
}

// Different at each node.
uint64_t seed_of(const Identity& identity) { return identity.seed + identity.self; }

// A datagram of this kind with these flags was for all nodes.
bool is_multicast(const Header& header) {
  switch (header.kind) {
    case Kind::data:
    case Kind::heartbeat:
    case Kind::release:
    case Kind::contribution:
    case Kind::result:
      return !(header.flags & (kForward | kUnicast));
    case Kind::hello:
      return header.flags == 0;
    default:
      return false;
  }
}

// A status that a node may fail with.
bool is_failure(uint32_t number) {
  for (const Status status :
       {Status::peer_dead, Status::peer_closed, Status::invalid, Status::no_memory})
    if (number == static_cast<uint32_t>(status)) return true;
  return false;
}

}  // namespace

const char* path_text(Path path) {
  switch (path) {
    case Path::multicast:
      return "by multicast";
    case Path::degraded:
      return "by multicast, with copies for nodes that it does not reach";
    case Path::tree:
      return "along a tree, for multicast does not arrive";
  }
  return "";
}

Member::Member(Channel& channel, const Identity& identity, std::span<std::byte> ring, uint64_t now)
    : outgoing_(channel, identity),
      ring_(ring),
      releases_(outgoing_),
      silence_(outgoing_),
      sender_(outgoing_, ring_, releases_),
      receiver_(outgoing_, ring_, silence_, seed_of(identity)),
      repairs_(outgoing_, ring_, releases_),
      gathering_(outgoing_, silence_, seed_of(identity) + 1),
      proof_(outgoing_, now) {}

Status Member::begin(const Call& call, uint64_t now) {
  if (failed_) return status_ = failure_;
  if (call.what == What::allreduce && call.bytes > kSmallMax) return Status::unsupported;
  if (call.root >= outgoing_.nodes()) return Status::invalid;
  if (call.bytes == 0 && call.what != What::barrier) return status_ = Status::ok;
  call_ = call;
  status_ = Status::pending;
  phase_ = Phase::verdict;
  writing_ = false;
  interval_ = {stream_next_, stream_next_, 0, call.root};
  if (call.what == What::bcast) interval_.end += whole_granules(call.bytes);
  if (call.what == What::allgather) {
    interval_.stride = whole_granules(call.bytes);
    interval_.end += interval_.stride * outgoing_.nodes();
  }
  stream_next_ = interval_.end;
  gathers_ = interval_.end == interval_.start;
  advance(now);
  return status_;
}

void Member::gather(std::span<const std::byte> in, uint64_t now) {
  gathering_.begin(digest_of(call_), in, call_.reduction, now);
}

void Member::advance(uint64_t now) {
  advanced_at_ = now;
  releases_.retry();
  note_released(now);
  while (status_ == Status::pending) {
    switch (phase_) {
      case Phase::verdict:
        if (!proof_.over()) return;
        if (interval_.end == interval_.start) {
          phase_ = Phase::gather;
          gather({call_.in, call_.what == What::barrier ? 0 : call_.bytes}, now);
        } else if (is_long()) {
          phase_ = Phase::ready;
          gather({}, now);
        } else {
          phase_ = Phase::stream;
          receiver_.expect(interval_, now);
        }
        break;
      case Phase::ready:
        if (!gathered(now)) return;
        phase_ = Phase::stream;
        receiver_.expect(interval_, now);
        break;
      case Phase::stream:
        if (!stream(now)) return;
        finish(now);
        break;
      case Phase::gather:
        if (!gathered(now)) return;
        if (call_.what == What::allreduce)
          std::memcpy(call_.out, gathering_.result().data(), call_.bytes);
        finish(now);
        break;
    }
  }
}

// All nodes have come to this operation, so they are done with what lies before.
bool Member::gathered(uint64_t now) {
  if (gathering_.mismatch()) {
    fail(outgoing_.self(), Status::invalid, 0, true);
    return false;
  }
  if (!gathering_.complete()) return false;
  settle(now);
  return true;
}

void Member::settle(uint64_t now) {
  releases_.on_released(interval_.start, 0);
  note_released(now);
}

void Member::note_released(uint64_t now) {
  if (releases_.released() != sender_.released())
    sender_.on_released(releases_.released(), releases_.lost(), now);
}

// In an allgather the nodes write in turn, several at a time.
bool Member::may_write() const {
  if (call_.what == What::bcast) return true;
  const auto writers =
      static_cast<uint32_t>(std::clamp<uint64_t>(kEagerMost / interval_.stride, 2, kWritersMost));
  const uint32_t self = outgoing_.self();
  return self < writers ||
         ring_.placed() >= interval_.start + (self - writers + 1) * interval_.stride;
}

// True: it is over for this node.
bool Member::stream(uint64_t now) {
  for (;;) {
    const uint64_t done = done_, released = releases_.released();
    if (writes() && !writing_ && may_write()) {
      writing_ = true;
      sender_.begin(own_start(), {call_.in, call_.bytes});
    }
    if (writing_) sender_.advance(done_, now);
    consume();
    note_released(now);
    if (done_ == done && releases_.released() == released) break;
  }
  return done_ == interval_.end && (!writes() || (writing_ && sender_.written()));
}

void Member::consume() {
  uint64_t to = std::min(ring_.placed(), interval_.end);
  // The bytes that the channel has not taken yet are needed.
  if (writing_ && !sender_.written()) to = std::min(to, sender_.sent());
  if (to <= done_) return;
  if (call_.what == What::allgather || !writes()) copy_parts(to);
  done_ = to;
  releases_.on_done(done_, receiver_.take_lost());
}

// Up to a position in the stream, without what fills the last granule of a part.
void Member::copy_parts(uint64_t to) {
  const uint64_t stride = interval_.stride ? interval_.stride : interval_.end - interval_.start;
  for (uint64_t pos = done_; pos < to;) {
    const uint64_t part = (pos - interval_.start) / stride;
    const uint64_t start = interval_.start + part * stride;
    const uint64_t end = std::min(to, start + stride);
    const uint64_t offset = pos - start;
    if (offset < call_.bytes)
      ring_.copy_out(pos, call_.out + part * call_.bytes + offset,
                     std::min(end - pos, call_.bytes - offset));
    pos = end;
  }
}

void Member::finish(uint64_t now) {
  if (call_.what == What::allgather) settle(now);
  status_ = Status::ok;
  receiver_.expect({}, now);
}

Header Member::failure_header() const {
  Header header;
  header.kind = Kind::failed;
  header.op = static_cast<uint32_t>(failure_);
  header.check = failed_detail_;
  header.arg = failed_node_;
  return header;
}

void Member::fail(uint32_t node, Status why, uint32_t detail, bool tell) {
  if (failed_) return;
  failed_ = true;
  failed_node_ = node;
  failed_detail_ = detail;
  failure_ = why;
  if (status_ == Status::pending) status_ = why;
  if (!tell) return;
  outgoing_.to_all(failure_header());
  if (outgoing_.path() != Path::tree) outgoing_.along_tree(failure_header());
}

void Member::give_up(Status why, uint32_t node, uint32_t detail) {
  if (node < outgoing_.nodes()) fail(node, why, detail, true);
}

void Member::receive(uint32_t from, std::span<const std::byte> datagram, uint64_t now) {
  Header header;
  const uint32_t nodes = outgoing_.nodes(), self = outgoing_.self();
  if (from >= nodes || from == self || !decode(datagram, ring_.placed(), &header) ||
      header.node >= nodes || header.node == self ||
      (header.node != from && !(header.flags & kForward))) {
    discarded_++;
    return;
  }
  if (failed_) {
    if (header.kind != Kind::failed) {
      outgoing_.to_one(from, failure_header());  // it does not know yet
    } else if (header.flags & kForward) {
      outgoing_.pass_on(header.node, datagram);
    }
    return;
  }
  if (is_multicast(header)) silence_.on_multicast(header.node, now);
  if (dispatch(from, header, datagram.subspan(kHeaderBytes), now) && header.flags & kForward)
    outgoing_.pass_on(header.node, datagram);
  advance(now);
}

// False: it need not be passed on.
bool Member::dispatch(uint32_t from, const Header& header, std::span<const std::byte> payload,
                      uint64_t now) {
  switch (header.kind) {
    case Kind::data:
    case Kind::repair: {
      const bool fresh = receiver_.on_bytes(header, payload, done_, now);
      if (header.flags & kAsk)
        releases_.on_asked(header.node, whole_position(header.pos, header.op), false);
      return fresh;
    }
    case Kind::heartbeat:
      receiver_.on_written(header.node, header.pos, now);
      if (header.flags & kAsk)
        releases_.on_asked(header.node, whole_position(header.pos, header.op), true);
      return true;
    case Kind::nack:
      if (header.flags & kPart) {
        gathering_.on_missing(from, header);
      } else if (!(header.flags & kWaiting) ||
                 now - sender_.silent_since() >= Repairs::kCrossingNs) {
        repairs_.answer(from, header.pos, payload, header.flags & kWaiting, now);
      }
      sender_.show(now);
      return false;
    case Kind::status:
      if (!releases_.on_status(from, whole_position(header.pos, header.op), header.pos, header.arg))
        discarded_++;
      return false;
    case Kind::release:
      releases_.on_released(header.pos, header.arg);
      return true;
    case Kind::contribution:
      gathering_.on_contribution(from, header, payload, now);
      if (header.flags & kAsk) sender_.show(now);
      return true;
    case Kind::result:
      gathering_.on_result(header, payload, now);
      return true;
    case Kind::hello:
      proof_.on_hello(header.node, header, payload, now);
      return true;
    case Kind::failed: {
      const auto why = static_cast<Status>(header.op);
      if (header.arg >= outgoing_.nodes() || !is_failure(header.op)) {
        discarded_++;
        return false;
      }
      fail(header.arg, why, header.check, false);
      return true;
    }
  }
  return false;
}

void Member::poll(uint64_t now) {
  gone_ = gone_ || now >= close_at_;
  if (failed_ || gone_) return;
  proof_.poll(now);
  receiver_.poll(now);
  gathering_.poll(now);
  sender_.poll(done_, now);
  advance(now);
}

uint64_t Member::deadline() const {
  if (gone_) return UINT64_MAX;
  if (failed_) return close_at_;
  const uint64_t retry = releases_.owes() ? advanced_at_ + kRefusedNs : UINT64_MAX;
  return std::min({proof_.deadline(), receiver_.deadline(), gathering_.deadline(),
                   sender_.deadline(), retry, close_at_});
}

void Member::close(uint64_t now) {
  close_at_ = now + kLingerNs;
  sender_.insist(now);
}

State Member::state(uint64_t now) const {
  const bool closing = close_at_ != UINT64_MAX;
  if (closing && (now >= close_at_ || (!failed_ && !gathers_ && settled()))) return State::gone;
  if (failed_) return State::failed;
  if (closing) return State::closing;
  return proof_.over() ? State::open : State::setup;
}

}  // namespace torii::multicast
