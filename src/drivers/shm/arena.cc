// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/shm/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "core/base/forked.h"
#include "core/base/log.h"
#include "core/base/memcheck.h"
#include "core/base/small_file.h"

namespace torii::shm {
namespace {

constexpr uint64_t kHuge = 2 << 20;         // a huge page, if the system has any for us
constexpr uint64_t kArenaMin = 64 << 20;    // less is not worth the trouble
constexpr uint64_t kArenaMax = 1ull << 44;  // addresses are not unlimited either
constexpr size_t kArenasMax = 256;          // in one process: as many as it has drivers open

// All arenas of this process, for the child of a fork.
ForkTable<Arena*, kArenasMax> g_arenas;

uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

// As much as the machine has, and as the limits of the process allow.
uint64_t arena_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t bytes = pages > 0 ? static_cast<uint64_t>(pages) * page : kArenaMin;
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = std::min<uint64_t>(bytes, limit.rlim_cur / 4);
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = std::min<uint64_t>(bytes, limit.rlim_cur);
  return std::min(bytes, kArenaMax) / kHuge * kHuge;
}

// vm.overcommit_memory 2: a page that was not promised is refused by SIGBUS when it is touched.
bool memory_is_promised() {
  std::string mode;
  return read_beginning("/proc/sys/vm/overcommit_memory", 1, &mode) && mode == "2";
}

}  // namespace

std::unique_ptr<Arena> Arena::make(const Cookie& cookie, std::string* why) {
  static const bool watched = pthread_atfork(nullptr, nullptr, after_fork) == 0;
  std::unique_ptr<Arena> arena(new (std::nothrow) Arena);
  if (!arena || !watched || !g_arenas.add(arena.get()))
    return refuse(why, nullptr,
                  "shm: no more memory can be shared in this process; close network interfaces");
  if (!arena->reserve(why)) return nullptr;
  ArenaHeader& header = *arena->header_;
  header.cookie = cookie;
  header.self_base = reinterpret_cast<uintptr_t>(arena->base_);
  header.bytes = arena->bytes_;
  std::atomic_thread_fence(release);
  header.magic = kArenaMagic;
  return arena;
}

bool Arena::reserve(std::string* why) {
  commit_ = memory_is_promised();
  uint64_t bytes = arena_bytes();
  void* at = MAP_FAILED;
  errno = ENOMEM;
  for (; bytes >= kArenaMin && at == MAP_FAILED; bytes = bytes / 2 / kHuge * kHuge) {
    bytes_ = bytes;
    at =
        mmap(nullptr, bytes + kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (at == MAP_FAILED) {
    bytes_ = 0;
    return refuse(why, false, "shm: addresses for memory to share are short (%s); raise ulimit -v",
                  strerror(errno));
  }
  const auto start = reinterpret_cast<uintptr_t>(at);
  const uint64_t before = round_up(start, kHuge) - start;
  base_ = static_cast<std::byte*>(at) + before;
  if (before) munmap(at, before);
  if (before < kHuge) munmap(base_ + bytes_, kHuge - before);
  fd_ = make_sealed(bytes_);
  if (!fd_ || !back(0, kArenaHead))
    return refuse(why, false, "shm: a segment of %llu bytes for memory to share failed: %s",
                  static_cast<unsigned long long>(bytes_), strerror(errno));
  header_ = reinterpret_cast<ArenaHeader*>(base_);  // zero; constructing it would touch all pages
  free_[kArenaHead] = bytes_ - kArenaHead;
  return true;
}

Arena::~Arena() {
  g_arenas.remove(this);
  if (base_) munmap(base_, bytes_);
}

// Maps part of the file at its place.
bool Arena::back(uint64_t first, uint64_t bytes) {
  if (commit_) {
    int failed;
    do {
      failed = fallocate(fd_.get(), 0, static_cast<off_t>(first), static_cast<off_t>(bytes));
    } while (failed && errno == EINTR);
    if (failed) return false;
  }
  void* at = mmap(base_ + first, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_.get(),
                  static_cast<off_t>(first));
  if (at == MAP_FAILED) return false;
  if (bytes >= kHuge) madvise(at, bytes, MADV_HUGEPAGE);
  return true;
}

// Gives the pages back to the system, whoever has them mapped. Only the addresses remain.
void Arena::unback(uint64_t first, uint64_t bytes) {
  const int saved = errno;
  if (mmap(base_ + first, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
           -1, 0) == MAP_FAILED)
    TORII_WARN("shm: %llu bytes of given back memory stay mapped: %m; raise vm.max_map_count",
               static_cast<unsigned long long>(bytes));
  if (fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                static_cast<off_t>(bytes)) != 0)
    TORII_WARN("shm: %llu bytes of shared memory could not be given back: %m",
               static_cast<unsigned long long>(bytes));
  errno = saved;
}

// Takes the first free range that is long enough.
bool Arena::take(uint64_t bytes, uint64_t alignment, uint64_t* first) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const uint64_t start = it->first, end = it->first + it->second;
    const uint64_t at = round_up(start, alignment);
    if (at > end || bytes > end - at) continue;
    free_.erase(it);
    if (at > start) free_[start] = at - start;
    if (end > at + bytes) free_[at + bytes] = end - (at + bytes);
    *first = at;
    return true;
  }
  return false;
}

void Arena::give(uint64_t first, uint64_t bytes) {
  auto next = free_.lower_bound(first);
  if (next != free_.end() && next->first == first + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == first) {
      before->second += bytes;
      return;
    }
  }
  free_[first] = bytes;
}

void* Arena::alloc(uint64_t bytes, uint64_t alignment) {
  if (bytes == 0 || bytes > bytes_ || alignment > kHuge) return nullptr;
  bytes = round_up(bytes, kPage);
  alignment = std::max<uint64_t>(alignment, bytes >= kHuge ? kHuge : kPage);
  uint64_t first;
  if (!take(bytes, alignment, &first)) return nullptr;
  ArenaKey key{};
  if (back(first, bytes)) key = fill_slot(base_ + first, bytes, 0, 0, {});
  if (!key.serial) {
    unback(first, bytes);
    give(first, bytes);
    return nullptr;
  }
  live_[first] = key.slot;
  return base_ + first;
}

void Arena::dealloc(void* base) {
  const auto first = static_cast<uint64_t>(static_cast<std::byte*>(base) - base_);
  const auto it = live_.find(first);
  TORII_ASSERT(it != live_.end());
  const uint32_t slot = it->second;
  const uint64_t bytes = slots_[slot].bytes;
  clear_slot(slot);
  live_.erase(it);
  unback(first, bytes);
  give(first, bytes);
}

ArenaKey Arena::key(const void* base, uint64_t bytes) const {
  const auto first = static_cast<uint64_t>(static_cast<const std::byte*>(base) - base_);
  auto it = live_.upper_bound(first);
  if (!contains(base) || it == live_.begin()) return {};
  --it;
  const Slot& slot = slots_[it->second];
  const uint64_t inside = first - it->first;
  if (inside > slot.bytes || bytes > slot.bytes - inside) return {};
  return {static_cast<uint32_t>(fd_.get()), it->second, slot.serial};
}

ArenaKey Arena::guard(const void* base, uint64_t bytes, uint32_t access, uint64_t label) {
  return fill_slot(base, bytes, access, label, key(base, bytes));
}

// The key names the slot; serial 0: all are in use.
ArenaKey Arena::fill_slot(const void* base, uint64_t bytes, uint32_t access, uint64_t label,
                          const ArenaKey& allocation) {
  if (free_slots_.empty()) {
    if (slots_.size() == kArenaSlots) return {};
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.push_back({});
  }
  const uint32_t number = free_slots_.back();
  free_slots_.pop_back();
  ArenaSlot& slot = header_->slots[number];
  std::atomic_thread_fence(release);  // the old word's 0 comes before
  slot.base.store(reinterpret_cast<uintptr_t>(base), relaxed);
  slot.bytes.store(bytes, relaxed);
  slot.access.store(access, relaxed);
  slot.label.store(label, relaxed);
  slot.allocation.store(allocation.slot, relaxed);
  slot.serial.store(allocation.serial, relaxed);
  slot.word.store(++last_serial_, release);
  slots_[number] = {last_serial_, static_cast<std::byte*>(const_cast<void*>(base)), bytes, access};
  return {static_cast<uint32_t>(fd_.get()), number, last_serial_};
}

// A peer that reads what the owner writes there from now on sees that the region has ended.
void Arena::clear_slot(uint32_t slot) {
  header_->slots[slot].word.store(0);
  std::atomic_thread_fence(release);
  slots_[slot] = {};
  free_slots_.push_back(slot);
}

// In the child of a fork: what it writes must not reach its parent's memory, which is its own from
// now on like any other memory. Allocates nothing; the maps may be in the middle of a change.
void Arena::after_fork() {
  g_arenas.each([](const Arena* arena) {
    if (!arena->header_) return;
    for (size_t n = 0; n < arena->slots_.size(); n++) {
      const ArenaSlot& slot = arena->header_->slots[n];
      if (slot.word.load(acquire) == 0 || slot.access.load(relaxed) != 0) continue;
      const uint64_t first = slot.base.load(relaxed) - reinterpret_cast<uintptr_t>(arena->base_);
      const uint64_t bytes = slot.bytes.load(relaxed);
      // Peers may write to the slot.
      if (first < kArenaHead || first > arena->bytes_ || bytes > arena->bytes_ - first) continue;
      // Where a copy is not promised the child has none, rather than its parent's memory.
      if (mmap(arena->base_ + first, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
               arena->fd_.get(), static_cast<off_t>(first)) == MAP_FAILED)
        mmap(arena->base_ + first, bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
  });
}

// --- a peer's ------------------------------------------------------------------------------------

// The first `bytes` bytes are mapped, or can be.
bool ArenaView::map(const Address& owner, uint32_t fd, uint64_t bytes) {
  if (bytes <= mapped_bytes_) return true;
  if (refused_) return false;
  if (mapped_.empty()) fd_ = fd;
  refused_ = !map_more(owner, bytes);
  if (refused_) TORII_INFO("shm: memory of process %u is not mapped", owner.pid);
  return !refused_;
}

// Proves the arena by its seals, its size and the cookie of its owner, each time: the number may be
// another file's by now.
bool ArenaView::map_more(const Address& owner, uint64_t bytes) {
  const std::string path = format_text("/proc/%u/fd/%u", owner.pid, fd_);
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat about;
  if (!file || !sealed(file.get(), &about)) return false;
  const auto all = static_cast<uint64_t>(about.st_size);
  const uint64_t part = std::min(std::bit_ceil(std::max(bytes, kMappedMin)), all);
  Mapping made;
  if (part < bytes || !made.map(file.get(), 0, part)) return false;
  const auto& head = *reinterpret_cast<const ArenaHeader*>(made.base());
  const uint64_t self_base = head.self_base;
  if (head.magic != kArenaMagic || !(head.cookie == owner.cookie) || head.bytes != all ||
      all > ~uint64_t{0} - self_base || (!mapped_.empty() && all != bytes_))
    return false;
  // Pages that nobody uses must not appear in core dumps.
  madvise(made.base(), part, MADV_DONTDUMP);
  if (mapped_.empty()) {
    bytes_ = all;
    self_base_ = self_base;
  }
  mapped_.push_back(std::move(made));
  mapped_bytes_ = part;
  return true;
}

// Is that allocation still there, and does it hold the range?
bool ArenaView::live(const ArenaKey& key, uint64_t base, uint64_t bytes) const {
  const ArenaSlot& slot = header().slots[key.slot];
  if (slot.word.load(acquire) != key.serial) return false;
  const uint64_t start = slot.base.load(relaxed);
  const uint64_t all = slot.bytes.load(relaxed);
  return base >= start && base - start <= all && bytes <= all - (base - start);
}

Status ArenaView::find(const Address& owner, const ArenaKey& key, uint64_t base, uint64_t bytes,
                       std::byte** at) {
  if (!map(owner, key.fd, kArenaHead)) return Status::unsupported;
  const uint64_t first = base - self_base_;
  if (key.fd != fd_ || key.slot >= kArenaSlots || key.serial == 0 || base < self_base_ ||
      first < kArenaHead || first > bytes_ || bytes > bytes_ - first || !live(key, base, bytes))
    return Status::invalid;
  if (!map(owner, fd_, first + bytes)) return Status::unsupported;
  *at = mapped_.back().base() + first;
  return Status::ok;
}

Status ArenaView::guarded(const Address& owner, const ArenaKey& key, Guarded* out) {
  if (!map(owner, key.fd, kArenaHead)) return Status::unsupported;
  if (key.fd != fd_ || key.slot >= kArenaSlots || key.serial == 0) return Status::invalid;
  const ArenaSlot& slot = header().slots[key.slot];
  if (slot.word.load(acquire) != key.serial) return Status::invalid;
  out->base = slot.base.load(relaxed);
  out->bytes = slot.bytes.load(relaxed);
  out->label = slot.label.load(relaxed);
  out->access = static_cast<uint32_t>(slot.access.load(relaxed));
  out->allocation = {fd_, static_cast<uint32_t>(slot.allocation.load(relaxed)),
                     slot.serial.load(relaxed)};
  out->slot = key.slot;
  out->word = {&slot.word, key.serial};
  std::atomic_thread_fence(acquire);
  if (slot.word.load(relaxed) != key.serial) return Status::invalid;  // it ended meanwhile
  return out->bytes > ~uint64_t{0} - out->base ? Status::invalid : Status::ok;
}

// --- exports -------------------------------------------------------------------------------------

bool Exports::forked() const { return static_cast<uint32_t>(getpid()) != self_.pid; }

bool Exports::make_arena() {
  if (!arena_ && !no_arena_) {
    std::string why;
    arena_ = Arena::make(self_.cookie, &why);
    no_arena_ = !arena_;
    if (no_arena_)
      TORII_WARN("%s; large messages from and to such memory take longer", why.c_str());
  }
  return arena_ != nullptr;
}

Status Exports::alloc(uint64_t bytes, uint64_t alignment, void** base) {
  if (forked()) return Status::unsupported;
  *base = make_arena() ? arena_->alloc(bytes, alignment) : nullptr;
  return *base ? Status::ok : Status::no_memory;
}

// In the child of a fork the memory is a copy, which stays; that of the parent is not the child's.
void Exports::dealloc(void* base) {
  if (!forked()) arena_->dealloc(base);
}

ArenaKey Exports::arena_key(const void* base, uint64_t bytes) const {
  return allocated(base) ? arena_->key(base, bytes) : ArenaKey{};
}

Status Exports::reg(void* base, uint64_t bytes, uint32_t access, Region* out) {
  const uint32_t rights = access & (kRemoteRead | kRemoteWrite | kRemoteUpdate);
  const bool guarded = access & kGuarded;
  if ((!base && bytes) || !access || (access & ~uint32_t{kGuarded}) != rights)
    return Status::invalid;
  if (guarded && (forked() || !make_arena())) return Status::unsupported;
  *out = Region{base, bytes, access, {}, 0, out->label};
  const Key key{reinterpret_cast<uintptr_t>(base), bytes, access,
                static_cast<uint32_t>(self_.cookie.words[1]),
                guarded ? arena_->guard(base, bytes, rights, out->label) : arena_key(base, bytes)};
  if (guarded && !key.arena.serial) return Status::no_memory;
  std::memcpy(out->key.data(), &key, sizeof(key));
  if (access & (kRemoteWrite | kRemoteUpdate)) written_by_others(base, bytes);
  if (!(access & kRemoteRead)) return Status::ok;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(readable_.size()));
    readable_.push_back({});
  }
  out->driver_data = free_.back();
  free_.pop_back();
  readable_[out->driver_data] = {key.base, bytes};
  return Status::ok;
}

void Exports::dereg(Region& region) {
  if ((region.access & kGuarded) && !forked()) {
    Key key;
    std::memcpy(&key, region.key.data(), sizeof(key));
    arena_->clear_slot(key.arena.slot);
  }
  if (region.access & kRemoteRead) {
    readable_[region.driver_data] = {};
    free_.push_back(static_cast<uint32_t>(region.driver_data));
  }
  region = Region{};
}

bool Exports::readable(uint64_t base, uint64_t bytes) const {
  return std::any_of(readable_.begin(), readable_.end(), [&](const Range& r) {
    return base >= r.base && base - r.base <= r.bytes && bytes <= r.bytes - (base - r.base);
  });
}

}  // namespace torii::shm
