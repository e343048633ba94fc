// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A ring of cache lines from one sender to one receiver.
//
// A frame occupies whole lines, in one piece: 8 bytes of control word, padding, then the bytes of
// the frame. Up to 56 bytes share the one line that the receiver is looking at. Padding lets a long
// body begin with a line, which copies faster.
//
//   control word:  | kind 8 | padding 8 | length 16 | position 32 |
//
// The position counts lines since the ring began, modulo 2^32; it tells the word of this lap from
// a word of an earlier one, so nothing is cleared behind the receiver. The exception is a line
// that held the middle of a frame and is to hold a control word next: its bytes could look like
// one. The sender remembers such lines (`stale`) and zeroes the word before the receiver gets
// there: it is always the line behind the frame being published, of which the sender is about to
// become the owner anyway. Neither side reads an index of the other on the way, except that the
// sender reads `released` when the room it knows of is used up.
//
// A sender that dies leaves frames published in full, or not at all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/copy.h"
#include "drivers/shm/layout.h"

namespace torii::shm {

inline constexpr uint64_t kKindFrame = 1;
inline constexpr uint64_t kKindSkip = 2;     // nothing up to the end of the ring
inline constexpr uint64_t kKindSplit = 3;    // a SplitRequest, for the driver itself
inline constexpr uint64_t kKindRequest = 4;  // a Request, for the driver itself

inline constexpr size_t kFirstBytes = kLine - sizeof(uint64_t);  // of a frame in its first line

inline constexpr uint64_t control_word(uint64_t kind, uint32_t length, uint32_t position,
                                       uint32_t padding = 0) {
  return kind << 56 | uint64_t{padding} << 48 | uint64_t{length} << 32 | position;
}
static_assert(kLongMtu < 1 << 16);

inline constexpr uint32_t lines_of(uint32_t frame_bytes) {
  return static_cast<uint32_t>((frame_bytes + sizeof(uint64_t) + kLine - 1) / kLine);
}

// The longest frame of a ring, in bytes.
inline constexpr uint32_t frame_max_of(uint32_t ring_lines) {
  return ring_lines >= kLongRing / kLine ? kLongMtu : kMtu;
}

inline std::atomic<uint64_t>& control_at(std::byte* ring, uint32_t line) {
  return *reinterpret_cast<std::atomic<uint64_t>*>(ring + size_t{line} * kLine);
}

// The sender's end. `stale` has one bit per line and belongs to the caller.
struct RingSender {
  std::byte* base = nullptr;
  uint64_t* stale = nullptr;
  const std::atomic<uint32_t>* released = nullptr;
  uint32_t position = 0;  // next line to write
  uint32_t room = 0;      // lines that may be written before `released` is read again
  uint32_t lines = 0;     // a power of two
  uint32_t consumed = 0;  // `released` as last read
  bool corrupt = false;   // the receiver claims to have consumed what was never sent

  // Makes `need` lines available; false if there is no room, as far as can be believed.
  bool refresh(uint32_t need) {
    const uint32_t value = released->load(acquire) + kFirstPosition;
    const uint32_t in_flight = position - value;
    corrupt = in_flight > position - consumed;
    if (corrupt) return false;
    consumed = value;
    room = lines - in_flight;
    return need <= room;
  }

  // The way of a frame that fits one line: the line to write, or null if reserve() has to look.
  // publish_line() must follow.
  std::byte* reserve_line() {
    if (__builtin_expect(room < 2, 0)) return nullptr;
    const uint32_t at = position & (lines - 1);
    clear_stale((at + 1) & (lines - 1));
    return base + size_t{at} * kLine + sizeof(uint64_t);
  }

  // The line itself is not stale: whoever published the frame before saw to it.
  void publish_line(std::byte* bytes, uint32_t frame_bytes, uint64_t kind = kKindFrame) {
    reinterpret_cast<std::atomic<uint64_t>*>(bytes - sizeof(uint64_t))
        ->store(control_word(kind, frame_bytes, position), release);
    own_ahead();
    ++position;
    --room;
  }

  // Would reserve() find room?
  bool has_room(uint32_t frame_bytes) {
    const uint32_t count = lines_of(frame_bytes);
    // One more: the line behind the frame, whose control word may have to be zeroed.
    const uint32_t need = skip_of(count) + count + 1;
    return __builtin_expect(need <= room, 1) || refresh(need);
  }

  // Finds a place for a frame of any size. Returns where its bytes go (control word left out),
  // or null if there is no room. publish() must follow before the next reserve().
  //
  // The bytes of the first line must be written last, right before publish(): the receiver is
  // looking at that line. Once the first store has taken it away from the receiver, the receiver
  // asks for it again, and a store that comes much later would have to fetch it once more.
  std::byte* reserve(uint32_t frame_bytes) {
    if (!has_room(frame_bytes)) return nullptr;
    const uint32_t count = lines_of(frame_bytes);
    const uint32_t first = skip_of(count) ? 0 : position & (lines - 1);
    clear_stale((first + count) & (lines - 1));
    return base + size_t{first} * kLine + sizeof(uint64_t);
  }

  // The frame's bytes begin `padding` bytes behind the place that reserve(frame_bytes + padding)
  // gave.
  void publish(uint32_t frame_bytes, uint32_t padding = 0, uint64_t kind = kKindFrame) {
    const uint32_t count = lines_of(frame_bytes + padding);
    const uint32_t at = position & (lines - 1);
    const uint32_t skip = skip_of(count);
    const uint32_t first = skip ? 0 : at;
    const uint32_t where = position + skip;
    control_at(base, first).store(control_word(kind, frame_bytes, where, padding), release);
    note_lines(first, count);
    if (__builtin_expect(skip != 0, 0)) {
      // After the frame, so that the receiver finds it at once behind the skip. The lines left
      // out count as stale: if they are left out in every lap, their words come round again.
      note_lines(at, skip);
      control_at(base, at).store(control_word(kKindSkip, 0, position), release);
    }
    position = where + count;
    room -= skip + count;
    own_next(count);
  }

 private:
  // Lines at the end of the ring that a frame of so many leaves out: it is in one piece.
  uint32_t skip_of(uint32_t count) const {
    const uint32_t left = lines - (position & (lines - 1));
    return count > left ? left : 0;
  }

  // Asks for the line that comes eighth, to write it: of a stream of short frames each line would
  // have to be fetched from the receiver's cache before the next one is written, and where the two
  // have no cache in common that takes three times as long as all the rest.
  void own_ahead() const {
    if (room > kOwnAhead) own(position + kOwnAhead);  // else the receiver has not read it
  }

  // The same for frames of some lines: those of the next one, if it is as long. Not the first,
  // which the receiver looks at. With longer ones so many stores wait that this would only hold
  // them up.
  void own_next(uint32_t count) const {
    if (count == 1) return own_ahead();
    if (count < kOwnNextFrom || count > kOwnNextMost || room <= kOwnNextMost) return;
    for (uint32_t i = 1; i < count; i++) own(position + i);
  }

  void own(uint32_t where) const {
    const std::byte* const line = base + size_t{where & (lines - 1)} * kLine;
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
  }

  static constexpr uint32_t kOwnAhead = 8;  // lines
  static constexpr uint32_t kOwnNextFrom = 4;
  static constexpr uint32_t kOwnNextMost = 20;

  void clear_stale(uint32_t line) {
    uint64_t& word = stale[line / 64];
    const uint64_t bit = uint64_t{1} << line % 64;
    if (__builtin_expect(!(word & bit), 1)) return;
    word &= ~bit;
    control_at(base, line).store(0, relaxed);
  }

  // The first line gets a control word, the others are raw bytes (or words of older laps).
  void note_lines(uint32_t first, uint32_t count) {
    stale[first / 64] &= ~(uint64_t{1} << first % 64);
    uint32_t line = first + 1;
    uint32_t left = count - 1;
    while (left) {
      const uint32_t shift = line % 64;
      const uint32_t n = left < 64 - shift ? left : 64 - shift;
      stale[line / 64] |= (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << shift;
      line += n;
      left -= n;
    }
  }
};

// The receiver's end. The sender may write anything at any time: each word is read once and
// checked before use.
struct RingReceiver {
  std::byte* base = nullptr;
  std::atomic<uint32_t>* released = nullptr;
  uint32_t position = 0;  // next line to read
  uint32_t told = 0;      // `released` as last written
  uint32_t lines = 0;     // a power of two
  uint32_t longest = 0;   // frame_max_of(lines)
  uint32_t span = 0;      // lines of the frame found last

  static constexpr uint32_t kShortSpan = 2;   // lines of a frame
  static constexpr uint32_t kFetchAhead = 3;  // lines

  // The kind of the frame that was found.
  enum class Found : uint8_t {
    nothing,
    frame = kKindFrame,
    split = kKindSplit,
    request = kKindRequest,
    corrupt
  };

  // Looks for the next frame; its bytes stay valid until consume().
  [[gnu::always_inline]] Found peek(const std::byte** bytes, uint32_t* length) {
    uint32_t at = position & (lines - 1);
    uint64_t word = control_at(base, at).load(acquire);
    if (__builtin_expect(!is_next(word), 0)) return Found::nothing;
    if (__builtin_expect(word >> 56 == kKindSkip, 0)) {
      const uint32_t rest = lines - at;
      if (at == 0 || rest > lines_of(longest)) return Found::corrupt;
      position += rest;
      at = 0;
      word = control_at(base, 0).load(acquire);
      if (!is_next(word) || word >> 56 == kKindSkip) return Found::corrupt;
    }
    const auto size = static_cast<uint32_t>(word >> 32) & 0xffffu;
    const auto padding = static_cast<uint32_t>(word >> 48) & 0xffu;
    span = lines_of(size + padding);
    if (__builtin_expect(size > longest || padding > kFirstBytes || span > lines - at ||
                             word >> 56 > kKindRequest,
                         0))
      return Found::corrupt;
    *bytes = base + size_t{at} * kLine + sizeof(uint64_t) + padding;
    *length = size;
    // It has been written, and is on its way here while the head is read.
    if (__builtin_expect(span > 1, 0)) __builtin_prefetch(base + size_t{at + 1} * kLine);
    return static_cast<Found>(word >> 56);
  }

  // In a stream of short frames: has the processor fetch a line that is to be read soon, while the
  // frame found last is handed up. Not if there is no other frame yet: the line would be taken from
  // the sender just before it writes.
  // Always inlined: otherwise it is found to have no effect, and left out.
  [[gnu::always_inline]] void fetch_ahead() const {
    if (span > kShortSpan || !more()) return;
    const uint32_t soon = position + span + kFetchAhead;
    __builtin_prefetch(base + size_t{soon & (lines - 1)} * kLine);
  }

  // Gives the frame found last back. True if that made room known to the sender.
  bool consume() {
    position += span;
    if (__builtin_expect(position - told < lines / 4, 1)) return false;
    told = position;
    released->store(position - kFirstPosition, release);
    return true;
  }

  // Has another one arrived behind the frame found last?
  bool more() const { return is_at(position + span, word_at(position + span)); }

  // The bytes of that frame, if it has arrived, is of that kind and begins with the line; else
  // null. At least kFirstBytes may be read.
  const std::byte* next_of(uint64_t kind) const {
    const uint32_t next = position + span;
    const uint64_t word = word_at(next);
    if (!is_at(next, word) || word >> 48 != kind << 8) return nullptr;
    return base + size_t{next & (lines - 1)} * kLine + sizeof(word);
  }

  bool empty() const { return !is_next(word_at(position)); }

 private:
  uint64_t word_at(uint32_t place) const {
    return control_at(base, place & (lines - 1)).load(acquire);
  }
  static bool is_at(uint32_t place, uint64_t word) {
    return static_cast<uint32_t>(word) == place && word >> 56 != 0;
  }
  bool is_next(uint64_t word) const { return is_at(position, word); }
};

}  // namespace torii::shm
