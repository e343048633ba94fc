// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The user of the interface.
#include <algorithm>

#include "fuzz/world.h"

namespace torii::fuzz {

namespace {

constexpr uint32_t kMessageMax = 12000;
constexpr uint64_t kTags = 3;
constexpr ptl_pt_index_t kPortals = 3;
constexpr uint32_t kPortalsBytes = 2000;

// Picks one of these: Portals gets only references to live objects, but they may have gone.
template <typename T>
T pick(Input& in, const std::vector<T>& from, T none) {
  return from.empty() ? none : from[in.byte() % from.size()];
}

}  // namespace

// --- tagged ports -------------------------------------------------------------------------------

Lent* World::lend(bool receive) {
  lent_.emplace_back();
  Lent* lent = &lent_.back();
  lent->self = std::prev(lent_.end());
  lent->world = this;
  lent->receive = receive;
  lent->any_source = false;
  lent->bytes = in_.byte() & 1 ? in_.below(600) : in_.below(kMessageMax);
  return lent;
}

void World::give_back(Lent* lent) { lent_.erase(lent->self); }

torii_data_t World::describe(Lent* lent, uint8_t layout) {
  torii_data_t data{};
  data.layout = torii_layout_t(layout % 3);
  data.bytes = lent->bytes;
  if (data.layout == TORII_FUNCTIONS) {
    data.base = lent;
    data.pack = pack;
    data.unpack = unpack;
    return data;
  }
  const unsigned count = data.layout == TORII_PIECES ? 1 + layout / 3 % 9 : 1;
  uint64_t left = lent->bytes;
  for (unsigned i = 0; i < count; ++i) {
    const uint64_t bytes = i + 1 == count ? left : left / 3;
    left -= bytes;
    lent->blocks.push_back(std::make_unique<char[]>(bytes));
    lent->pieces.push_back({lent->blocks.back().get(), bytes});
  }
  data.base = lent->blocks[0].get();
  data.pieces = lent->pieces.data();
  data.piece_count = count;
  return data;
}

void World::pack(void* context, uint64_t offset, void* buffer, size_t bytes) {
  auto* lent = static_cast<Lent*>(context);
  require(!lent->receive && offset == lent->next_offset && bytes <= lent->bytes - offset);
  lent->next_offset += bytes;
  std::memset(buffer, 0x33, bytes);
}

void World::unpack(void* context, uint64_t offset, const void* buffer, size_t bytes) {
  auto* lent = static_cast<Lent*>(context);
  require(lent->receive && offset == lent->next_offset && bytes <= lent->bytes - offset);
  lent->next_offset += bytes;
  volatile unsigned char sum = 0;
  for (size_t i = 0; i < bytes; ++i) sum = static_cast<const unsigned char*>(buffer)[i];
  (void)sum;
}

void World::done(void* arg, const torii_result_t* result) {
  auto* lent = static_cast<Lent*>(arg);
  World& world = *lent->world;
  require(result->bytes <= lent->bytes);
  require(result->code <= 0 && result->code >= TORII_ERR_IO);
  world.give_back(lent);
  if (world.reenter_ == 0) return;
  --world.reenter_;
  world.in_.byte() & 1 ? world.post() : world.send();
}

void World::post() {
  Lent* lent = lend(true);
  const uint8_t how = in_.byte();
  torii_peer_t* source = how & 1 ? nullptr : peer(how / 2 % kFuzzPeers);
  lent->any_source = !source;
  const torii_data_t data = describe(lent, in_.byte());
  torii_request_t request = 0;
  torii_result_t result{};
  const int code = torii_recv(ports_[in_.byte() % kFuzzPorts], source, in_.below(kTags),
                              how & 64 ? ~uint64_t{0} : 0, &data, done, lent, &request, &result);
  if (code == TORII_PENDING) {
    requests_.push_back(request);
  } else {
    require(result.bytes <= lent->bytes);
    give_back(lent);
  }
  read_sent();
}

void World::send() {
  Lent* lent = lend(false);
  const torii_data_t data = describe(lent, in_.byte());
  torii_request_t request = 0;
  const int code =
      torii_send(ports_[in_.byte() % kFuzzPorts], peer(in_.byte() % kFuzzPeers),
                 torii_mode_t(in_.byte() % 3), in_.below(kTags), 7, &data, done, lent, &request);
  if (code == TORII_PENDING)
    requests_.push_back(request);
  else
    give_back(lent);
  read_sent();
}

void World::cancel() {
  if (requests_.empty()) return;
  const size_t at = in_.below(uint32_t(requests_.size()));
  torii_cancel(handle(), requests_[at]);
  requests_.erase(requests_.begin() + ptrdiff_t(at));
  read_sent();
}

void World::probe() {
  torii_result_t result{};
  torii_message_t* message = nullptr;
  torii_port_t* port = ports_[in_.byte() % kFuzzPorts];
  if (torii_probe(port, nullptr, 0, ~uint64_t{0}, &result) != TORII_OK) return;
  require(torii_mprobe(port, nullptr, 0, ~uint64_t{0}, &message, &result) == TORII_OK);
  Lent* lent = lend(true);
  const torii_data_t data = describe(lent, in_.byte());
  const int code = torii_mrecv(port, message, &data, done, lent, nullptr, &result);
  if (code != TORII_PENDING) give_back(lent);
  read_sent();
}

// --- Portals ------------------------------------------------------------------------------------

void World::open_portals() {
  int interfaces = 0;
  require(PtlInit(&interfaces) == PTL_OK);
  portals_ = register_ni(ni_->portals());
  require(portals_ != PTL_INVALID_HANDLE);
  require(PtlEQAlloc(portals_, 8, nullptr, &eq_) == PTL_OK);
}

ptl_md_t World::descriptor() {
  ptl_md_t md{};
  const uint32_t bytes = in_.below(kPortalsBytes);
  portals_memory_.push_back(std::make_unique<char[]>(bytes));
  md.start = portals_memory_.back().get();
  md.length = bytes;
  md.threshold = int(in_.byte() % 5) - 1;
  md.options = in_.take<uint16_t>() & 0x1ffu & ~PTL_MD_IOVEC;
  md.max_size = in_.below(kPortalsBytes);
  md.eq_handle = in_.byte() % 4 ? eq_ : PTL_EQ_NONE;
  return md;
}

void World::attach() {
  const ptl_process_id_t anyone{PTL_NID_ANY, PTL_PID_ANY};
  ptl_handle_me_t me = PTL_INVALID_HANDLE;
  const ptl_unlink_t unlink = in_.byte() & 1 ? PTL_UNLINK : PTL_RETAIN;
  const ptl_ins_pos_t position = in_.byte() & 1 ? PTL_INS_BEFORE : PTL_INS_AFTER;
  if (PtlMEAttach(portals_, in_.below(kPortals), anyone, in_.below(kTags), in_.below(2), unlink,
                  position, &me) != PTL_OK)
    return;
  mes_.push_back(me);
  ptl_handle_md_t md = PTL_INVALID_HANDLE;
  if (PtlMDAttach(me, descriptor(), unlink, &md) == PTL_OK) mds_.push_back(md);
}

void World::start_transfer() {
  ptl_handle_md_t md = pick(in_, mds_, PTL_INVALID_HANDLE);
  if (in_.byte() & 1 && PtlMDBind(portals_, descriptor(), PTL_RETAIN, &md) == PTL_OK)
    mds_.push_back(md);
  const ptl_process_id_t target{1 + in_.byte() % kFuzzPeers, 1};
  const ptl_pt_index_t index = in_.below(kPortals);
  const ptl_match_bits_t bits = in_.below(kTags);
  switch (in_.byte() % 4) {
    case 0:
      PtlPut(md, PTL_ACK_REQ, target, index, 0, bits, 0, 1);
      break;
    case 1:
      PtlPutRegion(md, in_.below(64), in_.below(512), PTL_NO_ACK_REQ, target, index, 0, bits, 0, 1);
      break;
    case 2:
      PtlGet(md, target, index, 0, bits, 0);
      break;
    default:
      PtlGetPut(md, pick(in_, mds_, PTL_INVALID_HANDLE), target, index, 0, bits, 0, 1);
  }
}

void World::unlink_something() {
  if (in_.byte() & 1)
    PtlMEUnlink(pick(in_, mes_, PTL_INVALID_HANDLE));
  else
    PtlMDUnlink(pick(in_, mds_, PTL_INVALID_HANDLE));
}

void World::portals_step() {
  if (portals_ == PTL_INVALID_HANDLE) return;
  switch (in_.byte() % 5) {
    case 0:
      attach();
      break;
    case 1:
      start_transfer();
      break;
    case 2:
      unlink_something();
      break;
    case 3:
      PtlPTFlowControl(portals_, in_.below(kPortals), in_.byte() & 1);
      break;
    default: {
      ptl_event_t event;
      while (PtlEQGet(eq_, &event) == PTL_OK) {
      }
    }
  }
  read_sent();
}

}  // namespace torii::fuzz
