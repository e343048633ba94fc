// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A member of a team whose shared memory holds anything: numbers of steps that are nearly right,
// and noise. The member stays in its memory, and never waits inside a call.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/collective/team.h"
#include "fuzz/calling.h"
#include "fuzz/input.h"

using namespace torii;

namespace {

constexpr uint32_t kMembersMost = 6;
constexpr uint64_t kRing = 16 << 10;

// Garbage that a member may find. Plausible numbers of steps are more frequent than noise.
void scribble(const team::Segment& segment, uint32_t members, uint64_t step, fuzz::Input& in) {
  const uint32_t member = in.below(members);
  const uint64_t number = in.byte() < 224 ? step + in.byte() % 4 : in.take<uint64_t>();
  team::Line& line = segment.line(member, step + in.byte() % 2);
  team::Shares& shares = segment.head().shares[step % team::kWindow];
  switch (in.byte() % 8) {
    case 0:
      segment.member(member).read.store(number);
      break;
    case 1:
      (in.byte() & 1 ? shares.taken : shares.done).store(number << 16 | in.take<uint16_t>());
      break;
    case 2:
      segment.head().broken.store(in.byte() < 32 ? in.take<uint32_t>() : 0);
      break;
    case 3:
      segment.head().sleepers[in.below(team::kMembersMax / 64)].store(in.take<uint64_t>());
      break;
    case 4:
      line.call.store(in.take<uint32_t>());
      break;
    default:
      line.call.store(segment.line(in.below(members), step).call.load());
      line.step.store(number);
  }
}

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  const uint32_t members = 2 + in.below(kMembersMost - 1), self = in.below(members);
  const uint64_t bytes = team::Segment::bytes(members, kRing);
  static_assert(sizeof(team::Head) % team::kLineBytes == 0);
  const std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(std::aligned_alloc(team::kLineBytes, bytes)));
  std::memset(memory.get(), 0, bytes);
  team::Segment segment(memory.get(), members, kRing);
  segment.clear();
  team::Team team;
  team.open(segment, members, self, in.byte() & 1);
  uint64_t step = 0;
  for (Status status = Status::ok; status == Status::ok && !in.empty();) {
    fuzz::Calling calling(in, members);
    if (!team.serves(calling.call)) continue;
    team.begin(calling.call);
    do {
      scribble(segment, members, step, in);
      if (in.byte() < 16) team.set_asleep(in.byte() & 1);
      status = team.advance();
      (void)team.take_sleepers();
    } while (status == Status::pending && !in.empty());
    step += status == Status::ok;
  }
  team.leave();
  team.detach();
  return 0;
}
