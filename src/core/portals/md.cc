// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/portals/md.h"

#include <algorithm>
#include <cstdlib>

namespace torii {

namespace {

constexpr unsigned kKnownOptions =
    PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE | PTL_MD_TRUNCATE | PTL_MD_ACK_DISABLE |
    PTL_MD_IOVEC | PTL_MD_MAX_SIZE | PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE;

// Start is null only if there are no bytes, and the range does not wrap around.
bool sensible_range(const void* start, uint64_t bytes) {
  if (bytes == 0) return true;
  return start && bytes <= UINTPTR_MAX - reinterpret_cast<uintptr_t>(start);
}

}  // namespace

Memory& Memory::operator=(const Memory& other) {
  if (other.pieces_) ++other.pieces_->users;
  release();
  base_ = other.base_;
  bytes_ = other.bytes_;
  pieces_ = other.pieces_;
  return *this;
}

void Memory::release() {
  if (pieces_ && --pieces_->users == 0) std::free(pieces_);
  pieces_ = nullptr;
}

Memory::Pieces* Memory::make_pieces(uint64_t count) {
  auto* pieces = static_cast<Pieces*>(std::malloc(sizeof(Pieces) + count * sizeof(iovec)));
  if (pieces) *pieces = {1, uint32_t(count), {}};
  return pieces;
}

Status Memory::describe(const ptl_md_t& md, uint32_t pieces_max, Memory* out) {
  if (md.options & ~kKnownOptions || md.threshold < PTL_MD_THRESH_INF) return Status::invalid;
  *out = Memory();
  if (!(md.options & PTL_MD_IOVEC)) {
    if (!sensible_range(md.start, md.length)) return Status::invalid;
    out->base_ = static_cast<std::byte*>(md.start);
    out->bytes_ = md.length;
    return Status::ok;
  }
  // Portals 3.3: with IOVEC, length counts the pieces; the library keeps its own copy.
  if (md.length > pieces_max || (md.length > 0 && !md.start)) return Status::invalid;
  const auto* list = static_cast<const ptl_md_iovec_t*>(md.start);
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < md.length; ++i) {
    if (!sensible_range(list[i].iov_base, list[i].iov_len)) return Status::invalid;
    if (list[i].iov_len > UINT64_MAX - bytes) return Status::invalid;
    bytes += list[i].iov_len;
  }
  out->pieces_ = make_pieces(md.length);
  if (!out->pieces_) return Status::no_memory;
  for (uint64_t i = 0; i < md.length; ++i)
    out->pieces_->list[i] = {list[i].iov_base, list[i].iov_len};
  out->bytes_ = bytes;
  return Status::ok;
}

Status Memory::slice(uint64_t offset, uint64_t bytes, Memory* out) const {
  if (offset == 0 && bytes == bytes_) {
    *out = *this;
    return Status::ok;
  }
  *out = Memory();
  out->bytes_ = bytes;
  if (!pieces_) {
    out->base_ = bytes ? base_ + offset : base_;
    return Status::ok;
  }
  if (bytes == 0) return Status::ok;
  uint32_t first = 0;
  uint64_t before = offset;  // bytes of piece `first` before the slice
  while (before >= pieces_->list[first].iov_len) before -= pieces_->list[first++].iov_len;
  uint32_t last = first;
  for (uint64_t reach = pieces_->list[first].iov_len - before; reach < bytes;)
    reach += pieces_->list[++last].iov_len;
  out->pieces_ = make_pieces(last - first + 1);
  if (!out->pieces_) return Status::no_memory;
  uint64_t left = bytes;
  for (uint32_t i = first; i <= last; ++i) {
    const iovec& from = pieces_->list[i];
    const uint64_t skip = i == first ? before : 0;
    const uint64_t take = std::min<uint64_t>(from.iov_len - skip, left);
    out->pieces_->list[i - first] = {static_cast<std::byte*>(from.iov_base) + skip, take};
    left -= take;
  }
  return Status::ok;
}

Data Memory::data() const {
  if (!pieces_) return Data(base_, bytes_);
  return Data(pieces_->list, pieces_->count, bytes_);
}

bool Md::fits(uint64_t request_offset, uint64_t length, uint64_t* offset,
              uint64_t* accepted) const {
  *offset = option(PTL_MD_MANAGE_REMOTE) ? request_offset : local_offset;
  // Portals 3.3: an offset at the end leaves room 0, one behind the end rejects.
  if (*offset > memory.bytes()) return false;
  const uint64_t room = memory.bytes() - *offset;
  *accepted = std::min(length, room);
  return length <= room || option(PTL_MD_TRUNCATE);
}

bool Md::consume(bool target, uint64_t accepted) {
  const bool was_active = active;
  // A reply or an acknowledgement may come when nothing is left: it is delivered all the same.
  if (user.threshold > 0 && --user.threshold == 0) active = false;
  if (target && !option(PTL_MD_MANAGE_REMOTE)) {
    local_offset += accepted;
    // Portals 3.3: strictly less room than max_size makes a locally managed one inactive.
    if (option(PTL_MD_MAX_SIZE) && memory.bytes() - local_offset < user.max_size) active = false;
  }
  return was_active && !active;
}

}  // namespace torii
