// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Puts and gets made together by one system call. A call of cross-memory attach costs as much as
// copying several KiB, whatever it copies, so what follows at once is waited for:
// - While frames are handed up, a get of the frames' sender is put off as long as more frames of it
//   have arrived: they may ask for further gets. They are made when the ring is empty, or when
//   there is enough to copy, before poll() returns.
// - Of several puts or gets between two polls, those of middling size are put off until the next
//   poll, or until there are enough.
#include "drivers/shm/attach.h"
#include "drivers/shm/nic.h"

namespace torii {

static_assert(shm::kGatherMost <= shm::kAttachPieces);

void ShmDriver::Batch::add(const Rma& rma, const Import& import) {
  const GuardedImport* const guarded = import.guarded.get();
  all[count++] = {rma.cookie, import.key.base + rma.remote_offset, rma.pieces[0],
                  guarded ? guarded->word.word : nullptr, guarded ? guarded->word.valid : 0};
  bytes += rma.bytes;
}

bool ShmDriver::Batch::full() const {
  return count == shm::kGatherMost || bytes >= shm::kGatherBytes;
}

// Empties the batch, which stays readable: status[i] is that of its i-th.
void ShmDriver::make_together(Batch& batch, Status* status) {
  Peer& peer = *batch.peer;
  const unsigned count = batch.count;
  iovec local[shm::kGatherMost], remote[shm::kGatherMost];
  unsigned ranges = 0;
  uint64_t bytes = 0;
  for (unsigned i = 0; i < count; i++) {
    const Gathered& one = batch.all[i];
    status[i] = one.ended() ? Status::invalid : Status::ok;
    if (status[i] != Status::ok) continue;
    local[ranges] = one.piece;
    remote[ranges++] = {reinterpret_cast<void*>(one.remote), one.piece.iov_len};
    bytes += one.piece.iov_len;
  }
  batch.count = 0;
  batch.bytes = 0;
  const uint64_t moment = shm::attach_moment();
  shm::Target target;
  int error = 0;
  Status together = attach_target(peer, moment, &target);
  if (together == Status::ok)
    together = batch.write ? shm::attach_write_all(target, local, remote, ranges, bytes, &error)
                           : shm::attach_read_all(target, local, remote, ranges, bytes, &error);
  if (together == Status::ok) {
    peer.proved = moment;
    counters_.gathered_accesses += ranges;
  }
  // What one of them lacks, the others need not: each by itself.
  for (unsigned i = 0; i < count && together != Status::ok; i++) {
    const Gathered& one = batch.all[i];
    if (status[i] == Status::ok)
      status[i] = attach(peer, batch.write, one.remote, &one.piece, 1, one.piece.iov_len, &error);
    if (status[i] == Status::denied && peer.direct) downgrade(peer, error);
  }
  if (batch.write) return;
  std::atomic_thread_fence(std::memory_order_acquire);
  for (unsigned i = 0; i < count; i++)  // as still_valid()
    if (status[i] == Status::ok && batch.all[i].ended()) status[i] = Status::invalid;
}

// --- gets that frames ask for --------------------------------------------------------------------

// Of the peer whose frames are being handed up. `unsupported`: to be done at once.
Status ShmDriver::gather_get(const Rma& rma, Peer& peer) {
  const Import& import = imports_[rma.remote];
  if (rma.cookie == 0 || rma.piece_count != 1 || !peer.direct || import.key.arena.serial ||
      rma.bytes > shm::kGatherLongest || gathered_.full() ||
      (gathered_.count == 0 && !peer.in.more()))
    return Status::unsupported;
  gathered_.peer = &peer;
  gathered_.add(rma, import);
  return Status::pending;
}

// Are further frames worth handing up before the gets are made?
bool ShmDriver::gathers_on(unsigned frames) const {
  return !gathered_.full() && frames < 2 * kTurn;
}

void ShmDriver::finish_gathered() {
  const unsigned count = gathered_.count;
  Status status[shm::kGatherMost];
  make_together(gathered_, status);
  for (unsigned i = 0; i < count; i++) sink_.done(gathered_.all[i].cookie, status[i]);
}

// --- several puts or gets between two polls ------------------------------------------------------

bool ShmDriver::may_put_off(const Rma& rma, const Import& import, const Peer& peer,
                            bool write) const {
  return rma.bytes >= (write ? points_.together_put_min : points_.together_get_min) &&
         rma.bytes <= points_.together_most && rma.piece_count == 1 && side_by_side_ &&
         !draining_ && peer.direct && !import.key.arena.serial && put_off_owed_ < kCookiesMax;
}

Status ShmDriver::put_off(const Rma& rma, Peer& peer, bool write) {
  if (put_off_.count > 0 && (put_off_.peer != &peer || put_off_.write != write)) make_put_off();
  lone_++;
  put_off_owed_++;
  put_off_.peer = &peer;
  put_off_.write = write;
  put_off_.add(rma, imports_[rma.remote]);
  if (put_off_.full()) make_put_off();
  return Status::pending;
}

void ShmDriver::make_put_off() {
  const unsigned count = put_off_.count;
  Status status[shm::kGatherMost];
  make_together(put_off_, status);
  for (unsigned i = 0; i < count; i++) made_.push_back({put_off_.all[i].cookie, status[i]});
}

unsigned ShmDriver::report_put_off() {
  if (put_off_.count > 0) make_put_off();
  reporting_made_.swap(made_);
  const auto count = static_cast<unsigned>(reporting_made_.size());
  put_off_owed_ -= count;
  for (const Made& one : reporting_made_) sink_.done(one.cookie, one.status);
  reporting_made_.clear();
  return count;
}

}  // namespace torii
