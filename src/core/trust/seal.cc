// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/trust/seal.h"

#include <algorithm>

#include "core/base/little_endian.h"

namespace torii {
namespace {

uint64_t tag_of(const std::byte* head, uint64_t unsent, const TagKey& key,
                std::span<const std::byte> covered) {
  std::byte more[8];
  store_little<uint64_t>(more, unsent);
  SipHash hash(key);
  hash.add({head, kSealedHeadBytes});
  hash.add(more);
  hash.add(covered);
  return hash.finish();
}

// At most kSipLanes frames, none of them whole.
template <typename Frame>
void tags_side_by_side(std::span<const Frame> frames, uint64_t* tags) {
  if (frames.size() == 1) {
    tags[0] = tag_of(frames[0].head, frames[0].unsent, frames[0].key->tag, {});
    return;
  }
  std::array<const std::byte*, kSipLanes> texts;
  SipWords unsent{}, all;
  SipKeys keys;
  texts.fill(frames[0].head);
  keys.fill(&frames[0].key->tag);
  for (size_t lane = 0; lane < frames.size(); lane++) {
    texts[lane] = frames[lane].head;
    keys[lane] = &frames[lane].key->tag;
    unsent[lane] = frames[lane].unsent;
  }
  siphash_lanes(keys, texts, kSealedHeadBytes / 8, unsent, &all);
  std::copy_n(all.begin(), frames.size(), tags);
}

}  // namespace

void TagSeal::seal(std::span<const Sealing> frames) const {
  while (!frames.empty()) {
    uint64_t tags[kSipLanes];
    size_t count = 1;
    if (const Sealing& first = frames[0]; first.whole) {
      tags[0] = tag_of(first.head, first.unsent, first.key->tag, first.body);
    } else {
      while (count < std::min(kSipLanes, frames.size()) && !frames[count].whole) count++;
      tags_side_by_side(frames.first(count), tags);
    }
    for (size_t i = 0; i < count; i++)
      store_little<uint64_t>(frames[i].head + kSealedHeadBytes, tags[i]);
    frames = frames.subspan(count);
  }
}

bool TagSeal::open(const Opening& frame) const {
  const auto covered = frame.whole ? frame.body : std::span<const std::byte>();
  return has(frame.head, tag_of(frame.head, frame.unsent, frame.key->tag, covered));
}

void TagSeal::expect(std::span<const Opening> frames, uint64_t* tags) {
  tags_side_by_side(frames, tags);
}

bool TagSeal::has(const std::byte* head, uint64_t tag) {
  return load_little<uint64_t>(head + kSealedHeadBytes) == tag;
}

}  // namespace torii
