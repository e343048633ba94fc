// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Registers, the two tables, and the kernel driver.
#include "nic/sci/card.h"

#include <algorithm>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "nic/sci/model.h"

namespace torii::nic::sci {
namespace {

constexpr uint64_t kStoreNs = 605;  // from the bus to the ring, with the downstream table
// A processor whose store finds the bridge full waits on the bus. Untimed hosts cannot: their
// stores wait here.
constexpr size_t kStoresMax = 1 << 16;

// The ring's nodes know by the target's number whether a packet is theirs.
class RingRoute final : public RoutePolicy {
 public:
  explicit RingRoute(const Routes& routes) : routes_(routes) {}
  uint64_t route(unsigned crossbar, unsigned, Packet& packet) override {
    if (packet.bytes.size() < sizeof(Header)) return 0;
    const auto to = load_little<uint16_t>(&packet.bytes[offsetof(Header, to)]);
    const int port = to < routes_.hosts() ? routes_.port(crossbar, to) : -1;
    return port < 0 ? 0 : uint64_t{1} << port;
  }

 private:
  const Routes& routes_;
};

// Are these bytes the context's, of a space of which each context has so many?
bool owns(unsigned context, uint64_t address, uint64_t bytes, uint64_t each) {
  return address / each == context && bytes <= each - address % each;
}

}  // namespace

std::unique_ptr<Model> make_model(const Board& board) { return std::make_unique<SciCard>(board); }

std::unique_ptr<RoutePolicy> make_switches(const Routes& routes) {
  return std::make_unique<RingRoute>(routes);
}

SciCard::SciCard(const Board& board)
    : board_(board),
      reader_(board.bus.add_channel()),
      server_(board.bus.add_channel()),
      writer_(board.bus.add_channel()),
      processes_(board.contexts),
      upstream_(board.contexts, kPages, kPageBytes),
      downstream_(board.contexts, kWindowPages, kWindowPageBytes),
      nodes_(board.nodes) {}

// --- processes -------------------------------------------------------------------------------

void SciCard::open(unsigned context, Name name, uint64_t shared_address) {
  gone(context);
  processes_[context].name = name;
  processes_[context].shared = shared_address;
}

bool SciCard::idle(unsigned context) const {
  const Process& process = processes_[context];
  return process.stores.empty() && process.stores_out == 0 &&
         std::ranges::all_of(process.vis, [](const Vi& vi) { return vi.jobs.empty(); });
}

// Requests that have left its memory go on: others count their numbers.
void SciCard::gone(unsigned context) {
  processes_[context] = Process{};
  for (unsigned i = 0; i < kVis; i++)
    processes_[context].vis[i] = {.context = context, .number = i};
  upstream_.clear(context);
  downstream_.clear(context);
}

void SciCard::raise(unsigned context, uint32_t cause) {
  Process& process = processes_[context];
  if (process.name == kNobody) return;
  process.cause |= cause;
  if ((cause ? cause : process.cause) & process.mask) board_.bus.interrupt(context);
}

// --- registers -------------------------------------------------------------------------------

void SciCard::bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) {
  if (at >= kWindow) return store(context, at - kWindow, bytes);
  Process& process = processes_[context];
  for (; !bytes.empty(); bytes = bytes.subspan(4), at += 4) {
    const auto value = load_little<uint32_t>(bytes.data());
    const uint32_t vi = (at - kDoorbells) / kDoorbellBytes;
    if (at == kMask) {
      process.mask = value;
      raise(context, 0);
    } else if (at == kBarrier) {
      add_store(context, {});
    } else if (vi < kVis && at == doorbell_at(vi) && personality_ == kCombined) {
      add_store(context, {.vi = &process.vis[vi], .job = {.at = value}});
    } else {
      bad_stores_++;
    }
  }
}

uint32_t SciCard::bus_read(unsigned context, uint32_t at) {
  if (at == kId) return kIdValue;
  if (at == kCause) return std::exchange(processes_[context].cause, 0);
  if (at == kMask) return processes_[context].mask;
  return at >= kWindow ? ~0u : 0;
}

// Each line becomes a packet. Those of one burst are gathered.
void SciCard::store(unsigned context, uint32_t at, std::span<const std::byte> bytes) {
  for (size_t n; !bytes.empty(); bytes = bytes.subspan(n), at += static_cast<uint32_t>(n)) {
    n = std::min<size_t>(bytes.size(), kLineBytes - at % kLineBytes);
    Store line{.data = Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n))};
    if (find_import(context, context * uint64_t{kWindowBytes} + at, &line.header))
      add_store(context, std::move(line));
    else
      refuse(context);
  }
}

void SciCard::add_store(unsigned context, Store store) {
  Process& process = processes_[context];
  if (process.stores.size() == kStoresMax) return refuse(context);
  store.ready_ns = board_.engine.now_ns() + kStoreNs;
  process.stores.push_back(std::move(store));
  board_.engine.after(kStoreNs, [this] { pump(); });
}

// --- the kernel driver -----------------------------------------------------------------------

Status SciCard::control(unsigned context, const nic::Control& in, nic::Control*) {
  const auto& words = in.words;
  Process& process = processes_[context];
  switch (in.call) {
    case kConfigure:
      if (words[0] > kDolphin) return Status::invalid;
      for (const Process& other : processes_)
        if (&other != &process && other.name != kNobody && personality_ != words[0])
          return Status::denied;
      personality_ = static_cast<uint32_t>(words[0]);
      return Status::ok;
    case kExport:
      return export_pages(context, in);
    case kImport:
      return import_pages(context, in);
    case kQueue:
      if (words[1] == 0 || words[1] > kPages ||
          !owns(context, words[0], words[1] * sizeof(Completion), kBytesOfProcess))
        return Status::invalid;
      process.queue = static_cast<uint32_t>(words[0]);
      process.entries = static_cast<uint32_t>(words[1]);
      return Status::ok;
    case kReset:
      if (words[0] >= kVis) return Status::invalid;
      process.vis[words[0]].is_broken = false;
      return Status::ok;
    case kTransfer:
      return transfer(context, in);
    case kBuffers:
      if (std::min(words[0], words[1]) == 0 || std::max(words[0], words[1]) > kBuffersMax)
        return Status::invalid;
      limits_ = {static_cast<unsigned>(words[0]), static_cast<unsigned>(words[1])};
      return Status::ok;
    default:
      return Status::unsupported;
  }
}

Status SciCard::export_pages(unsigned context, const nic::Control& in) {
  const auto& [page, pages, address, rights, unused, unused_too] = in.words;
  if (page >= kPages || pages > kPages - page) return Status::invalid;
  constexpr uint64_t kEach = kBlockBytes / kPageBytes;
  const uint64_t offset = address - processes_[context].shared;
  // The window of a plain bridge is coarse, and lies where the kernel has kept memory for it.
  if (address != 0 && personality_ == kDolphin &&
      (page % kEach || pages % kEach || offset % kBlockBytes || offset > kSharedBytes ||
       pages * kPageBytes > kSharedBytes - offset))
    return Status::invalid;
  const auto entered = static_cast<uint32_t>(rights) | kEntered;
  for (uint64_t i = 0; i < pages; i++)
    static_cast<void>(
        upstream_.set(context, page + i, {address + i * kPageBytes, address ? entered : 0}));
  return Status::ok;
}

Status SciCard::import_pages(unsigned context, const nic::Control& in) {
  const auto& [page, pages, node, address, unused, unused_too] = in.words;
  if (page >= kWindowPages || pages > kWindowPages - page || address % kWindowPageBytes ||
      address > ~uint32_t{0} || pages * kWindowPageBytes > ~uint32_t{0} - address)
    return Status::invalid;
  if (node >= board_.nodes) return Status::unreachable;
  for (uint64_t i = 0; i < pages; i++)
    static_cast<void>(downstream_.set(context, page + i,
                                      {node << 32 | (address + i * kWindowPageBytes), kEntered}));
  return Status::ok;
}

Status SciCard::transfer(unsigned context, const nic::Control& in) {
  const auto& [vi, at, remote, local, bytes, operation] = in.words;
  if (vi >= kVis || bytes > kTransferMax || at > ~uint32_t{0}) return Status::invalid;
  if (!owns(context, local, bytes, kBytesOfProcess) || !owns(context, remote, bytes, kWindowBytes))
    return Status::denied;
  Store store{.vi = &processes_[context].vis[vi], .job = {.at = static_cast<uint32_t>(at)}};
  Descriptor& d = store.job.d;
  d.segments = 2;
  d.control = static_cast<uint16_t>(operation);
  d.length = d.bytes = static_cast<uint32_t>(bytes);
  d.remote = remote;
  d.local = local;
  add_store(context, std::move(store));
  return Status::ok;
}

std::string SciCard::report() const {
  return format_text(
      "%llu requests out, %llu in, %llu busy, %llu sent again, %llu bad CRC, %llu bad stores, "
      "%llu bad descriptors, %llu refused",
      requests_out_, requests_in_, busy_, repeated_, bad_crc_, bad_stores_, bad_descriptors_,
      bad_requests_);
}

}  // namespace torii::nic::sci
