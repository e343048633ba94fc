// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Registers, the two tables, and the kernel driver.
#include "nic/sci/card.h"

#include <algorithm>

#include "core/base/log.h"
#include "nic/sci/model.h"

namespace torii::nic::sci {
namespace {

constexpr uint64_t kStoreNs = 605;  // from the bus to the ring, with the downstream table
// A processor whose store finds the bridge full waits on the bus. Untimed hosts cannot: their
// stores wait here.
constexpr size_t kStoresMax = 1 << 16;
constexpr unsigned kTriesMax = 4;  // of a transfer of the bus that fails

// The ring's nodes know by the target's number whether a packet is theirs.
class RingRoute final : public RoutePolicy {
 public:
  explicit RingRoute(const Routes& routes) : routes_(routes) {}
  uint64_t route(unsigned crossbar, unsigned, Packet& packet) override {
    Header header;
    if (packet.bytes.size() < sizeof(header)) return 0;
    std::memcpy(&header, packet.bytes.data(), sizeof(header));
    const int port = header.to < routes_.hosts() ? routes_.port(crossbar, header.to) : -1;
    return port < 0 ? 0 : uint64_t{1} << port;
  }

 private:
  const Routes& routes_;
};

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
      upstream_(size_t{kPages} * board.contexts),
      downstream_(size_t{kWindowPages} * board.contexts),
      nodes_(board.nodes) {}

// --- processes -------------------------------------------------------------------------------

void SciCard::open(unsigned context, Name name, uint64_t shared_address) {
  Process& process = processes_[context] = Process{};
  process.name = name;
  process.shared = shared_address;
  process.tag = ++tags_ ? tags_ : ++tags_;  // 0 is no tag
}

bool SciCard::idle(unsigned context) const {
  const Process& process = processes_[context];
  return process.stores.empty() && process.stores_out == 0 &&
         std::ranges::all_of(process.vis, [](const Vi& vi) { return vi.jobs.empty(); });
}

// Requests that have left its memory go on: others count their numbers.
void SciCard::gone(unsigned context) {
  processes_[context] = Process{};
  std::fill_n(upstream_.begin() + ptrdiff_t{context} * kPages, kPages, Upstream{});
  std::fill_n(downstream_.begin() + ptrdiff_t{context} * kWindowPages, kWindowPages, Downstream{});
}

void SciCard::raise(unsigned context, uint32_t cause) {
  Process& process = processes_[context];
  if (process.name == kNobody) return;
  process.cause |= cause;
  if ((cause ? cause : process.cause) & process.mask) board_.bus.interrupt(context);
}

void SciCard::read_host(unsigned channel, uint64_t address, size_t bytes, Bus::ReadDone done,
                        unsigned tries) {
  board_.bus.dma_read(
      channel, address, bytes,
      [=, this, done = std::move(done)](Status status, std::span<const std::byte> data) {
        if (status == Status::io_error && tries < kTriesMax)
          return read_host(channel, address, bytes, done, tries + 1);
        done(status, data);
      });
}

void SciCard::write_host(uint64_t address, Bytes bytes, Bus::WriteDone done, unsigned tries) {
  board_.bus.dma_write(writer_, address, bytes, [=, this, done = std::move(done)](Status status) {
    if (status == Status::io_error && tries < kTriesMax)
      return write_host(address, bytes, done, tries + 1);
    done(status);
  });
}

// --- registers -------------------------------------------------------------------------------

void SciCard::bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) {
  if (at >= kWindow) return store(context, at - kWindow, bytes);
  for (size_t i = 0; i < bytes.size(); i += 4) {
    uint32_t value;
    std::memcpy(&value, &bytes[i], sizeof(value));
    const uint32_t reg = at + static_cast<uint32_t>(i), vi = (reg - kDoorbells) / kDoorbellBytes;
    if (reg == kMask) {
      processes_[context].mask = value;
      raise(context, 0);
    } else if (reg == kBarrier) {
      add_store(context, {Store::Kind::barrier, 0, 0, 0, {}});
    } else if (vi < kVis && reg == doorbell_at(vi) && personality_ == kCombined) {
      add_store(context, {Store::Kind::doorbell, 0, vi, value, {}});
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
  while (!bytes.empty()) {
    const auto n =
        std::min<uint32_t>(static_cast<uint32_t>(bytes.size()), kLineBytes - at % kLineBytes);
    const Downstream& page = downstream_[size_t{context} * kWindowPages + at / kWindowPageBytes];
    if (page.tag == 0) {
      bad_stores_++;
      raise(context, kCauseRefused);
    } else {
      add_store(context, {Store::Kind::data, 0, page.node, page.address + at % kWindowPageBytes,
                          Bytes(bytes.begin(), bytes.begin() + n)});
    }
    at += n;
    bytes = bytes.subspan(n);
  }
}

void SciCard::add_store(unsigned context, Store store) {
  Process& process = processes_[context];
  if (process.stores.size() == kStoresMax) {
    bad_stores_++;
    return raise(context, kCauseRefused);
  }
  store.ready_ns = board_.engine.now_ns() + kStoreNs;
  process.stores.push_back(std::move(store));
  pump_later(kStoreNs);
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
          !owns(context, words[0], words[1] * sizeof(Completion), uint64_t{kPages} * kPageBytes))
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
      request_buffers_ = static_cast<uint32_t>(words[0]);
      served_buffers_ = static_cast<uint32_t>(words[1]);
      return Status::ok;
    default:
      return Status::unsupported;
  }
}

// Are these bytes the context's, of a space of which each context has so many?
bool SciCard::owns(unsigned context, uint64_t address, uint64_t bytes, uint64_t each) const {
  return address / each == context && bytes <= each - address % each;
}

Status SciCard::export_pages(unsigned context, const nic::Control& in) {
  const auto& [page, pages, address, rights, unused, unused_too] = in.words;
  const Process& process = processes_[context];
  if (page >= kPages || pages > kPages - page) return Status::invalid;
  constexpr uint64_t kEach = kBlockBytes / kPageBytes;
  const uint64_t offset = address - process.shared;
  // The window of a plain bridge is coarse, and lies where the kernel has kept memory for it.
  if (address != 0 && personality_ == kDolphin &&
      (page % kEach || pages % kEach || offset % kBlockBytes || offset > kSharedBytes ||
       pages * kPageBytes > kSharedBytes - offset))
    return Status::invalid;
  for (uint64_t i = 0; i < pages; i++)
    upstream_[context * uint64_t{kPages} + page + i] =
        address ? Upstream{address + i * kPageBytes, static_cast<uint32_t>(rights), process.tag}
                : Upstream{};
  return Status::ok;
}

Status SciCard::import_pages(unsigned context, const nic::Control& in) {
  const auto& [page, pages, node, address, unused, unused_too] = in.words;
  if (page >= kWindowPages || pages > kWindowPages - page || address % kWindowPageBytes ||
      address > ~uint32_t{0} || pages * kWindowPageBytes > ~uint32_t{0} - address)
    return Status::invalid;
  if (node >= board_.nodes) return Status::unreachable;
  for (uint64_t i = 0; i < pages; i++)
    downstream_[context * uint64_t{kWindowPages} + page + i] = {
        processes_[context].tag, static_cast<uint32_t>(node),
        static_cast<uint32_t>(address + i * kWindowPageBytes)};
  return Status::ok;
}

Status SciCard::transfer(unsigned context, const nic::Control& in) {
  const auto& [vi, at, remote, local, bytes, operation] = in.words;
  if (vi >= kVis || bytes > kTransferMax || at > ~uint32_t{0}) return Status::invalid;
  if (!owns(context, local, bytes, uint64_t{kPages} * kPageBytes) ||
      !owns(context, remote, bytes, kWindowBytes))
    return Status::denied;
  Store store{Store::Kind::doorbell, 0, static_cast<uint32_t>(vi), static_cast<uint32_t>(at), {}};
  Descriptor d{};
  d.segments = 2;
  d.control = static_cast<uint16_t>(operation);
  d.length = d.bytes = static_cast<uint32_t>(bytes);
  d.remote = remote;
  d.local = local;
  const auto* const from = reinterpret_cast<const std::byte*>(&d);
  store.data.assign(from, from + sizeof(d));
  add_store(context, std::move(store));
  return Status::ok;
}

std::string SciCard::report() const {
  const auto ull = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  return format_text(
      "%llu requests out, %llu in, %llu busy, %llu sent again, %llu bad CRC, %llu bad stores, "
      "%llu bad descriptors, %llu refused",
      ull(requests_out_), ull(requests_in_), ull(busy_), ull(repeated_), ull(bad_crc_),
      ull(bad_stores_), ull(bad_descriptors_), ull(bad_requests_));
}

}  // namespace torii::nic::sci
