// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Gets made by one system call. A call of cross-memory attach costs as much as copying several KiB,
// whatever it copies. While frames are handed up, a get of the frames' sender is put off as long as
// more frames of it have arrived: they may ask for further gets. Those are made together when the
// ring is empty, or when there is enough to copy, before poll() returns.
#include "drivers/shm/attach.h"
#include "drivers/shm/nic.h"

namespace torii {

static_assert(shm::kGatherMost <= shm::kAttachPieces);

// Of the peer whose frames are being handed up. `unsupported`: to be done at once.
Status ShmDriver::gather_get(const Rma& rma, const Peer& peer) {
  const Import& import = imports_[rma.remote];
  if (rma.cookie == 0 || rma.piece_count != 1 || !peer.direct || import.guarded ||
      import.key.arena.serial || rma.bytes > shm::kGatherLongest ||
      gathered_count_ == shm::kGatherMost || (gathered_count_ == 0 && !peer.in.more()))
    return Status::unsupported;
  gathered_[gathered_count_++] = {rma.cookie, import.key.base + rma.remote_offset, rma.pieces[0]};
  gathered_bytes_ += rma.bytes;
  return Status::pending;
}

// Are further frames worth handing up before the gets are made?
bool ShmDriver::gathers_on(unsigned frames) const {
  return gathered_count_ < shm::kGatherMost && gathered_bytes_ < shm::kGatherBytes &&
         frames < 2 * kTurn;
}

void ShmDriver::finish_gathered(Peer& peer) {
  const unsigned count = gathered_count_;
  iovec local[shm::kGatherMost], remote[shm::kGatherMost];
  for (unsigned i = 0; i < count; i++) {
    local[i] = gathered_[i].piece;
    remote[i] = {reinterpret_cast<void*>(gathered_[i].remote), local[i].iov_len};
  }
  const uint64_t moment = shm::attach_moment();
  shm::Target target;
  int error = 0;
  Status together = attach_target(peer, moment, &target);
  if (together == Status::ok)
    together = shm::attach_read_all(target, local, remote, count, gathered_bytes_, &error);
  if (together == Status::ok) {
    peer.proved = moment;
    counters_.gathered_gets += count;
  }
  gathered_count_ = 0;
  gathered_bytes_ = 0;
  for (unsigned i = 0; i < count; i++) {
    Status status = Status::ok;
    // What one of them lacks, the others need not: each by itself.
    if (together != Status::ok)
      status = attach(peer, false, gathered_[i].remote, &local[i], 1, local[i].iov_len, &error);
    if (status == Status::denied && peer.direct) downgrade(peer, error);
    sink_.done(gathered_[i].cookie, status);
  }
}

}  // namespace torii
