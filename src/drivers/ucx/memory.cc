// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Memory that peers reach by their cards. Everything about a key is checked before UCX sees it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "drivers/ucx/nic.h"

namespace torii::ucx {

Status UcxDriver::reg(void* base, uint64_t bytes, uint32_t access, Region* out) {
  if (!transports_.remote_memory || (access & ~(kRemoteRead | kRemoteWrite)))
    return Status::unsupported;
  if (!base && bytes) return Status::invalid;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_PROT | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = base;
  params.length = std::max<uint64_t>(bytes, 1);
  params.prot = UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_LOCAL_WRITE |
                (access & kRemoteRead ? UCP_MEM_MAP_PROT_REMOTE_READ : 0) |
                (access & kRemoteWrite ? UCP_MEM_MAP_PROT_REMOTE_WRITE : 0);
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  ucp_mem_h memory = nullptr;
  if (ucx_->mem_map(ucx_.context(), &params, &memory) != UCS_OK) return Status::no_memory;
  void* rkey = nullptr;
  size_t size = 0;
  const bool packed = ucx_->rkey_pack(ucx_.context(), memory, &rkey, &size) == UCS_OK;
  const bool fits = packed && size <= kRkeyMax;
  *out = Region{base, bytes, access, {}, reinterpret_cast<uintptr_t>(memory), out->label};
  if (fits)
    write_key({reinterpret_cast<uintptr_t>(base),
               bytes,
               access,
               {static_cast<const std::byte*>(rkey), size}},
              &out->key);
  if (packed) ucx_->rkey_buffer_release(rkey);
  if (fits) return Status::ok;
  (void)ucx_->mem_unmap(ucx_.context(), memory);
  return Status::unsupported;
}

void UcxDriver::dereg(Region& region) {
  (void)ucx_->mem_unmap(ucx_.context(), reinterpret_cast<ucp_mem_h>(region.driver_data));
  region = Region{};
}

Status UcxDriver::import(PeerId id, std::span<const std::byte> bytes, uint32_t* remote) {
  MemoryKey key;
  if (!transports_.remote_memory) return Status::unsupported;
  const Peer* const peer = find(id);
  if (!peer || !peer->ep || !parse_key(bytes, &key)) return Status::invalid;
  Import import{id, nullptr, key.base, key.bytes, key.access};
  if (ucx_->ep_rkey_unpack(peer->ep, key.rkey.data(), &import.rkey) != UCS_OK)
    return Status::invalid;
  if (free_imports_.empty()) {
    free_imports_.push_back(static_cast<uint32_t>(imports_.size()));
    imports_.emplace_back();
  }
  *remote = free_imports_.back();
  free_imports_.pop_back();
  imports_[*remote] = import;
  return Status::ok;
}

void UcxDriver::drop(uint32_t remote) {
  ucx_->rkey_destroy(imports_[remote].rkey);
  imports_[remote] = Import{};
  free_imports_.push_back(remote);
}

Status UcxDriver::move(const Rma& rma, Cap cap) {
  if (!transports_.remote_memory) return Status::unsupported;
  if (rma.remote >= imports_.size() || !imports_[rma.remote].rkey) return Status::invalid;
  const Import& import = imports_[rma.remote];
  Peer& peer = *peers_[import.peer];
  const uint32_t right = cap == kPut ? kRemoteWrite : kRemoteRead;
  if (!(import.access & right) || rma.remote_offset > import.bytes ||
      rma.bytes > import.bytes - rma.remote_offset)
    return Status::invalid;
  if (peer.end != Status::ok) return peer.end;
  if (rma.bytes == 0) return Status::ok;
  if (rma.cookie == 0) return Status::again;
  auto* const move = new Move{this, peer.id, rma.cookie, 1, cap == kPut, Status::ok};
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = on_moved;
  param.user_data = move;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  uint64_t at = import.base + rma.remote_offset;
  for (uint32_t i = 0; i < rma.piece_count; i++) {
    const iovec& piece = rma.pieces[i];
    if (piece.iov_len == 0) continue;
    void* const request =
        cap == kPut
            ? ucx_->put_nbx(peer.ep, piece.iov_base, piece.iov_len, at, import.rkey, &param)
            : ucx_->get_nbx(peer.ep, piece.iov_base, piece.iov_len, at, import.rkey, &param);
    if (UCS_PTR_IS_ERR(request)) move->status = Status::peer_dead;
    if (UCS_PTR_IS_PTR(request)) {
      move->open++;
      open_++;
    }
    at += piece.iov_len;
  }
  end_move(move);
  return Status::pending;
}

void UcxDriver::on_moved(void* request, ucs_status_t status, void* moved) {
  Move* const move = static_cast<Move*>(moved);
  move->driver->ucx_->request_free(request);
  move->driver->open_--;
  if (status != UCS_OK) move->status = Status::peer_dead;
  move->driver->end_move(move);
}

// A piece less is under way, or all have been handed to UCX. The bytes of a put are at the peer
// when a flush that began after it is over.
void UcxDriver::end_move(Move* move) {
  if (--move->open > 0) return;
  if (!move->put || move->status != Status::ok) {
    done_.push_back({move->cookie, move->status});
  } else {
    Peer& peer = *peers_[move->peer];
    peer.written.push_back(move->cookie);
    to_flush_.push_back(peer.id);
  }
  delete move;
}

// One flush at a time covers all puts before it.
void UcxDriver::flush_written() {
  for (const PeerId id : std::exchange(to_flush_, {})) {
    Peer& peer = *peers_[id];
    if (peer.flushing || peer.written.empty() || !peer.ep) continue;
    std::swap(peer.written, peer.flushed);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = on_flushed;
    param.user_data = &peer;
    void* const request = ucx_->ep_flush_nbx(peer.ep, &param);
    peer.flushing = UCS_PTR_IS_PTR(request);
    if (peer.flushing) {
      open_++;
    } else {
      finish(&peer.flushed, request ? Status::peer_dead : Status::ok);
    }
  }
}

void UcxDriver::on_flushed(void* request, ucs_status_t status, void* flushed) {
  Peer& peer = *static_cast<Peer*>(flushed);
  UcxDriver& driver = *peer.driver;
  driver.ucx_->request_free(request);
  driver.open_--;
  peer.flushing = false;
  driver.finish(&peer.flushed, status == UCS_OK ? Status::ok : Status::peer_dead);
  driver.to_flush_.push_back(peer.id);
}

void UcxDriver::finish(std::vector<uint64_t>* cookies, Status status) {
  for (const uint64_t cookie : *cookies) done_.push_back({cookie, status});
  cookies->clear();
}

}  // namespace torii::ucx
