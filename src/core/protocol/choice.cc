// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/protocol/choice.h"

#include <algorithm>

#include "core/protocol/wire.h"

namespace torii::choice {

namespace {

constexpr uint64_t kWindowMin = 64 << 10;
constexpr uint64_t kWindowMax = 4 << 20;
constexpr uint32_t kEagerFrames = 8;         // of one message, if not advised
constexpr uint64_t kOnceMin = 64 << 10;      // where registration costs much, if not told
constexpr uint64_t kPushedMost = 128 << 10;  // where there are only frames
constexpr uint64_t kPutMost = 256 << 10;     // the same, to memory that is exported
constexpr uint64_t kCopiedLeast = 3 << 10;   // shorter ones leave as quickly in packets

// The longest put that is not announced. To announce buys nothing but a round trip where only
// frames carry data and an export is there already, or credit that the message is kept until its
// match. But the backlog goes before all else: what has to wait in it is short, and of puts to an
// export one frame.
uint64_t push_max(const Plan& plan, const Payload& payload, bool backlog) {
  if (backlog) return payload.exported ? plan.small_max : plan.eager_max;
  const bool lent = !plan.limit_set && payload.contiguous && plan.can(kDelivers);
  if (!plan.frames_only() || !(payload.exported || lent)) return plan.eager_max;
  return std::max<uint64_t>(plan.eager_max, payload.exported ? kPutMost : kPushedMost);
}

// An eager message of several frames, which a driver would take as one if it were lent, and which
// is alone: of many, frames that are filled and sent together are as quick.
bool worth_copying(const Plan& plan, const Payload& payload, const Load& load) {
  return plan.can(kDelivers) && plan.frames_only() && !plan.registers_local() && !load.copied &&
         !payload.exported && !payload.answered && payload.contiguous && payload.bytes > plan.mtu &&
         payload.bytes >= kCopiedLeast && sizeof(wire::Request) + payload.bytes <= load.long_max;
}

}  // namespace

uint64_t eager_window(uint64_t wanted, uint64_t memory, uint32_t processes) {
  if (wanted) return wanted;
  return std::clamp(memory / std::max(processes, 1u), kWindowMin, kWindowMax);
}

Plan make_plan(const DriverCaps& caps, const Advice* advice, uint64_t eager_limit,
               uint64_t eager_window, const RegisteredMemory* registered) {
  // One message leaves half of the credit for those behind it.
  const uint64_t advised = std::min<uint64_t>(
      caps.eager_advice ? caps.eager_advice : caps.mtu * kEagerFrames, eager_window / 2);
  Plan plan;
  plan.flags = caps.flags;
  plan.mtu = caps.mtu;
  plan.long_max = caps.long_max;
  plan.pieces_max = std::min(caps.pieces_max, kPieces);
  plan.limit_set = eager_limit != 0;
  plan.eager_max = uint32_t(std::min(eager_limit ? eager_limit : advised, eager_window));
  plan.small_max =
      std::min({caps.inline_max, caps.mtu - uint32_t(sizeof(wire::Tagged)), plan.eager_max});
  plan.sent_below = advice ? advice->sent_below : 0;
  plan.remote_min = advice ? advice->remote_min : 0;
  if (plan.can(kNeedsReg)) plan.once_min = registered ? registered->once_min : kOnceMin;
  if (registered && registered->local) plan.copied_max = caps.inline_max;
  if (!plan.can(kGet)) return plan;
  const uint64_t crossing = advice ? advice->read_crossing_min : 0;
  plan.crossing_min = crossing ? crossing : plan.eager_max / 2 + 1;
  if (advice && !plan.limit_set) plan.alone_min = advice->read_alone_min;
  plan.read_min = std::min(plan.alone_min, plan.crossing_min);
  return plan;
}

// A message that could go eagerly is better read, once there is no copying in by one process while
// the other one copies out: because both have more to send than the other takes at once, until two
// messages met nothing else under way; or because the message is alone.
Reason Recent::better_read(const Plan& plan, const Payload& payload, const Load& load) {
  if (payload.bytes < plan.read_min) return Reason::none;
  const bool readable = payload.contiguous && !load.denied;
  const bool others = load.announced || load.backlog;
  if (crosses()) {
    if (!others) --crossing_;
    return readable && payload.bytes >= plan.crossing_min ? Reason::crossing : Reason::none;
  }
  if (others) {
    run_ = kRun;
    return Reason::none;
  }
  if (run_ > 0) {
    --run_;
    return Reason::none;
  }
  return readable && payload.bytes >= plan.alone_min ? Reason::alone : Reason::none;
}

Choice put(const Plan& plan, Recent* recent, const Payload& payload, const Load& load) {
  const uint64_t cost = payload.exported ? 0 : wire::credit_units(payload.bytes);
  // A long one leaves credit for small ones behind it: it may be kept there for long.
  const bool longer = payload.bytes > plan.eager_max;
  const uint64_t left = longer && !payload.exported ? wire::credit_units(plan.eager_max) : 0;
  if (payload.bytes > push_max(plan, payload, load.backlog))
    return {Way::announced, Reason::length};
  if (cost + left > load.credit) return {Way::announced, Reason::credit};
  if (payload.near) return {Way::announced, Reason::near};
  const Reason read = recent->better_read(plan, payload, load);
  if (read != Reason::none) return {Way::announced, read};
  if (longer) return {Way::lent};
  return {worth_copying(plan, payload, load) ? Way::copied : Way::eager};
}

// The place of what was asked of an export is known: nobody has to ask for the payload. A
// payload that one frame does not carry is lent to the driver, if that tells when it has arrived.
Choice reply(const Plan& plan, const Payload& payload) {
  const bool longer = payload.bytes > plan.eager_max;
  const bool lent =
      plan.can(kDelivers) && payload.contiguous && payload.bytes > plan.mtu - sizeof(wire::Control);
  if (payload.exported && plan.frames_only() && (longer || lent || payload.near))
    return {Way::streamed};
  if (longer) return {Way::announced, Reason::length};
  return payload.near ? Choice{Way::announced, Reason::near} : Choice{};
}

bool exports(const Plan& plan, const Recent& recent, const Payload& payload, bool denied,
             uint32_t access) {
  if (!plan.can(access == kRemoteRead ? kGet : kPut) || denied || !payload.contiguous ||
      payload.bytes == 0)
    return false;
  if (payload.near) return true;
  uint64_t least = plan.remote_min;
  if (recent.crosses()) least = std::min(least, plan.crossing_min);
  if (!payload.kept) least = std::max(least, plan.once_min);
  return payload.bytes >= least;
}

// Frames are not asked for first where a source may take its memory back before this process has
// told it to.
Move move(const Plan& plan, const Target& target) {
  if (!target.key) return plan.can(kGet) ? Move::frames : Move::write;
  const bool first = target.sooner && target.bytes < plan.sent_below && !target.near &&
                     !target.silent && !target.backlog && !plan.can(kDelivers);
  return first ? Move::frames_first : Move::read;
}

bool reachable(const Plan& plan, Cap by, const Payload& payload, bool addressed, bool denied) {
  return plan.can(by) && addressed && !denied && movable(plan, payload);
}

bool movable(const Plan& plan, const Payload& payload) {
  return payload.bytes <= plan.copied_max ||
         (payload.contiguous && (payload.kept || payload.bytes >= plan.once_min));
}

}  // namespace torii::choice
