// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The TNet adapter. The communication controller (CC) cuts messages into micropackets, checks the
// destination and translates addresses; the link controller, with CRC and resend, is the link.
#include "nic/tnet/model.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <utility>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "nic/mmu.h"

namespace torii::nic::tnet {
namespace {

struct Header {     // of a micropacket; with the CRC 16 bytes
  uint16_t to;      // node or group
  uint8_t table;    // mapped, else direct
  uint8_t rti;      // with the last packet of a message
  uint32_t target;  // VCA >> 2, or index << 12 | offset
  uint16_t slot;    // of the process
  uint16_t high;    // bits 34 and up of the VCA
};
static_assert(sizeof(Header) == 12);

struct Descriptor {
  uint32_t destination = 0;
  uint32_t words = 0;
  uint32_t target = 0;
  uint32_t target_high = 0;
};

class TnetModel final : public Model {
 public:
  explicit TnetModel(const Board& board)
      : board_(board),
        reader_(board.bus.add_channel()),
        writer_(board.bus.add_channel()),
        pages_(board.contexts, kPages, kPageBytes),
        processes_(board.contexts) {}

  void open(unsigned context, Name name, uint64_t shared_address) override;
  bool idle(unsigned context) const override;
  void gone(unsigned context) override;
  void bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) override;
  uint32_t bus_read(unsigned context, uint32_t at) override;
  Status control(unsigned context, const Control& in, Control* out) override;
  void arrive(Packet&& packet) override;
  void port_ready() override;
  void port_down() override;
  std::string report() const override;

 private:
  struct Process {
    Name name = kNobody;
    uint64_t shared = 0;
    std::vector<bool> valid;  // destinations
    uint32_t cause = 0;
    uint32_t mask = 0;
    uint32_t sends = 0;  // transfers of kSend that are over
    size_t waiting = 0;  // and that are not
  };
  struct Transfer {  // of kSend
    unsigned context;
    Name name;
    Descriptor descriptor;
    uint64_t address;
    uint32_t fetched = 0;
  };
  struct Outgoing {
    unsigned context;
    std::vector<std::byte> bytes;
  };
  struct Place {  // of table-mapped mode
    unsigned context;
    uint64_t page;  // bus address
  };
  struct Store {
    unsigned context;
    uint64_t address;  // on the bus
    std::span<const std::byte> bytes;
    uint8_t rti;
  };

  // Sending.
  void begin(unsigned context, const Descriptor& descriptor);
  void take(std::span<const std::byte> bytes);
  void emit();
  void drain();
  void next_transfer();
  void fetch();
  void fetched(Status status, std::span<const std::byte> bytes);
  void end_transfer(Status status);
  // Receiving.
  void store_direct(const Header& header, std::span<const std::byte> data);
  void store_by_table(const Header& header, std::span<const std::byte> data);
  void raise(unsigned context, uint32_t cause);  // 0: those that were raised before
  // The kernel driver.
  Status map(unsigned context, const Control& in);
  Status map_index(unsigned context, const Control& in);
  Status queue(unsigned context, const Control& in);
  Status group(unsigned context, const Control& in, Control* out);
  void validate(unsigned context, uint64_t destination);

  static constexpr unsigned kKernel = 100, kFree = 101;  // beside the contexts: who has the lock

  const Board board_;
  const unsigned reader_, writer_;  // DMA channels
  Mmu pages_;
  std::unordered_map<uint32_t, std::vector<Place>> table_;  // by index
  std::vector<Process> processes_;
  unsigned lock_ = kFree;

  Descriptor written_;  // by stores
  uint32_t burst_ = 0;
  // The message that is being sent.
  unsigned sender_ = kFree;
  bool discard_ = false;  // its destination is not valid
  Descriptor descriptor_;
  uint64_t target_ = 0;  // of the next packet: VCA, or index and offset
  uint32_t left_ = 0;    // bytes that have not come yet
  std::vector<std::byte> assembled_;
  std::deque<Outgoing> fifo_;
  std::deque<Transfer> transfers_;  // the first one is under way, if the kernel has the lock
  bool fetching_ = false;
  std::vector<Store> stores_;  // of the packet that arrives

  unsigned long long packets_out_ = 0, packets_in_ = 0, bad_destinations_ = 0, bad_pages_ = 0,
                     refused_ = 0;
};

// --- processes -------------------------------------------------------------------------------

void TnetModel::open(unsigned context, Name name, uint64_t shared_address) {
  processes_[context] = Process{};
  processes_[context].name = name;
  processes_[context].shared = shared_address;
}

bool TnetModel::idle(unsigned context) const {
  const auto is_its = [&](const Outgoing& out) { return out.context == context; };
  return processes_[context].waiting == 0 && std::none_of(fifo_.begin(), fifo_.end(), is_its);
}

void TnetModel::gone(unsigned context) {
  const bool under_way = lock_ == kKernel && transfers_.front().context == context;
  std::erase_if(transfers_, [&](const Transfer& transfer) {
    return transfer.context == context && !(under_way && &transfer == &transfers_.front());
  });
  pages_.clear(context);
  for (auto& [index, places] : table_)
    std::erase_if(places, [&](const Place& place) { return place.context == context; });
  processes_[context] = Process{};
  if (sender_ == context) sender_ = kFree;  // what follows of its message is not sent
  if (lock_ == context) lock_ = kFree;
  next_transfer();
}

void TnetModel::raise(unsigned context, uint32_t cause) {
  Process& process = processes_[context];
  if (process.name == kNobody) return;
  process.cause |= cause;
  if ((cause ? cause : process.cause) & process.mask) board_.bus.interrupt(context);
}

// --- registers -------------------------------------------------------------------------------

void TnetModel::bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) {
  if (at >= kWindow) {
    if (lock_ == context && sender_ == context) return take(bytes);
    refused_++;
    return;
  }
  for (; !bytes.empty(); bytes = bytes.subspan(4), at += 4) {
    const auto value = load_little<uint32_t>(bytes.data());
    if (at == kMask) {
      processes_[context].mask = value;
      raise(context, 0);
    } else if (lock_ != context) {
      refused_++;
    } else if (at == kLock) {
      lock_ = kFree;
      next_transfer();
    } else if (at == kDestination) {
      written_.destination = value;
    } else if (at == kLength) {
      written_.words = value;
    } else if (at == kTarget) {
      written_.target = value;
    } else if (at == kTargetHigh) {
      written_.target_high = value;
      begin(context, written_);
    } else if (at == kBurst) {
      burst_ = value;
    } else {
      refused_++;
    }
  }
}

uint32_t TnetModel::bus_read(unsigned context, uint32_t at) {
  if (at == kCause) return std::exchange(processes_[context].cause, 0);
  if (at == kMask) return processes_[context].mask;
  if (at != kLock) return 0;
  if (lock_ == kFree) lock_ = context;
  const auto room = static_cast<uint32_t>(kSendFifo - std::min<size_t>(fifo_.size(), kSendFifo));
  return room | (lock_ == context ? uint32_t{kLockTaken} : 0);
}

// --- sending ---------------------------------------------------------------------------------

// The descriptor is complete: the destination is checked, and data may follow.
void TnetModel::begin(unsigned context, const Descriptor& descriptor) {
  const uint32_t id = descriptor.destination & kIdMask;
  const std::vector<bool>& valid = processes_[context].valid;
  sender_ = context;
  descriptor_ = descriptor;
  assembled_.clear();
  left_ = std::min<uint32_t>(descriptor.words, 1u << 28) * 4;
  target_ = descriptor.destination & kTableMapped
                ? descriptor.target
                : (uint64_t{descriptor.target_high & 0xffff} << 32 | descriptor.target) << 2;
  discard_ = id >= valid.size() || !valid[id];
  if (!discard_) return;
  bad_destinations_++;
  raise(context, kCauseDestination);
}

void TnetModel::take(std::span<const std::byte> bytes) {
  for (bytes = bytes.first(std::min<size_t>(bytes.size(), left_)); !bytes.empty();) {
    const size_t n = std::min<size_t>(kPacketBytes - assembled_.size(), bytes.size());
    assembled_.insert(assembled_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    left_ -= static_cast<uint32_t>(n);
    if (assembled_.size() == kPacketBytes || left_ == 0) emit();
  }
  if (burst_ == 0 && !assembled_.empty()) emit();
}

void TnetModel::emit() {
  const std::vector<std::byte> data = std::exchange(assembled_, {});
  const bool table = descriptor_.destination & kTableMapped;
  Header header{};
  header.to = static_cast<uint16_t>(descriptor_.destination & kIdMask);
  header.table = table;
  header.rti = left_ == 0 ? descriptor_.destination >> kInterruptShift & 15 : 0;
  header.target = static_cast<uint32_t>(table ? target_ : target_ >> 2);
  header.slot = static_cast<uint16_t>(descriptor_.target_high >> 16);
  header.high = static_cast<uint16_t>(table ? 0 : target_ >> 34);
  target_ += data.size();
  if (discard_) return;
  if (fifo_.size() >= kSendFifo) return raise(sender_, kCauseFifo);
  fifo_.push_back({sender_, make_bytes(header, data)});
  drain();
}

void TnetModel::port_ready() {
  drain();
  fetch();
}

void TnetModel::drain() {
  for (; !fifo_.empty() && board_.port.ready(); fifo_.pop_front(), packets_out_++)
    board_.port.send(fifo_.front().context, std::move(fifo_.front().bytes));
}

void TnetModel::port_down() {
  for (unsigned i = 0; i < processes_.size(); i++) raise(i, kCauseLink);
  fifo_.clear();
}

// The kernel driver takes the lock for the next transfer, if nobody has it.
void TnetModel::next_transfer() {
  if (lock_ != kFree || transfers_.empty()) return;
  lock_ = kKernel;
  begin(transfers_.front().context, transfers_.front().descriptor);
  burst_ = left_;
  fetch();
}

// Fetches the next part of the transfer that is under way, if the FIFO has room for it.
void TnetModel::fetch() {
  constexpr uint32_t kPart = 4 * kPacketBytes;
  if (lock_ != kKernel || fetching_ || fifo_.size() + 4 > kSendFifo) return;
  Transfer& transfer = transfers_.front();
  if (left_ == 0 || sender_ != transfer.context) return end_transfer(Status::ok);
  fetching_ = true;
  board_.bus.dma_read(reader_, transfer.address + transfer.fetched, std::min(left_, kPart),
                      [this](Status status, std::span<const std::byte> bytes) {
                        fetching_ = false;
                        fetched(status, bytes);
                      });
}

void TnetModel::fetched(Status status, std::span<const std::byte> bytes) {
  Transfer& transfer = transfers_.front();
  if (status != Status::ok || sender_ != transfer.context) return end_transfer(status);
  transfer.fetched += static_cast<uint32_t>(bytes.size());
  take(bytes);
  fetch();
}

void TnetModel::end_transfer(Status status) {
  const Transfer transfer = transfers_.front();
  transfers_.pop_front();
  lock_ = kFree;
  sender_ = kFree;
  Process& process = processes_[transfer.context];
  if (process.name == transfer.name) {
    process.waiting--;
    process.sends++;
    if (status != Status::ok) raise(transfer.context, kCauseDma);
    board_.bus.dma_write(
        writer_, process.shared, make_bytes(process.sends),
        [this, context = transfer.context](Status) { raise(context, kCauseSent); });
  }
  next_transfer();
}

// --- receiving -------------------------------------------------------------------------------

void TnetModel::arrive(Packet&& packet) {
  const size_t size = packet.bytes.size();
  packets_in_++;
  if (size <= sizeof(Header) || size > sizeof(Header) + kPacketBytes || size % 4) {
    refused_++;
    return board_.port.release();
  }
  const auto header = header_of<Header>(packet.bytes);
  const std::span data = std::span(packet.bytes).subspan(sizeof(header));
  stores_.clear();
  if (header.table) {
    store_by_table(header, data);
  } else {
    store_direct(header, data);
  }
  // The sender counts as open until its packet is stored; then the receive FIFO has its place
  // again.
  if (stores_.empty()) return board_.port.release();
  for (const Store& store : stores_) {
    board_.bus.dma_write(
        writer_, store.address, {store.bytes.begin(), store.bytes.end()},
        [this, context = store.context, rti = store.rti, is_last = &store == &stores_.back(),
         flight = packet.flight, name = processes_[store.context].name](Status) {
          if (is_last) board_.port.release();
          if (rti && processes_[context].name == name) raise(context, 1u << rti);
        });
  }
}

// To the process's page, or two of them.
void TnetModel::store_direct(const Header& header, std::span<const std::byte> data) {
  uint64_t vca = (uint64_t{header.high} << 32 | header.target) << 2;
  while (!data.empty()) {
    const size_t n = pages_.in_page(vca, data.size());
    uint64_t address;
    if (!pages_.find(header.slot, vca, kCardWrites, &address)) {
      bad_pages_++;
      if (header.slot < processes_.size()) raise(header.slot, kCausePage);
      return;
    }
    stores_.push_back(
        {header.slot, address, data.first(n), n < data.size() ? uint8_t{0} : header.rti});
    vca += n;
    data = data.subspan(n);
  }
}

// To the same place of a page of each process that is entered there: a node gets a message once.
void TnetModel::store_by_table(const Header& header, std::span<const std::byte> data) {
  const uint32_t offset = header.target % kPageBytes;
  const auto entry = table_.find(header.target / kPageBytes);
  if (entry == table_.end() || entry->second.empty() || offset + data.size() > kPageBytes) {
    bad_pages_++;
    return;
  }
  for (const Place& place : entry->second)
    stores_.push_back({place.context, place.page + offset, data, header.rti});
}

// --- the kernel driver -----------------------------------------------------------------------

Status TnetModel::control(unsigned context, const Control& in, Control* out) {
  switch (in.call) {
    case kValidate:
      if (in.words[0] > kIdMask ||
          !board_.manager.routes().reaches(board_.node, static_cast<uint32_t>(in.words[0])))
        return Status::unreachable;
      validate(context, in.words[0]);
      return Status::ok;
    case kMapPages:
    case kUnmapPages:
      return map(context, in);
    case kMapIndex:
    case kUnmapIndex:
      return map_index(context, in);
    case kSend:
      return queue(context, in);
    case kJoin:
    case kLeave:
    case kMember:
      return group(context, in, out);
    default:
      return Status::unsupported;
  }
}

Status TnetModel::map(unsigned context, const Control& in) {
  const uint64_t page = in.words[0], count = in.words[1], address = in.words[2];
  if (page >= kPages || count > kPages - page) return Status::invalid;
  const uint32_t rights = in.call == kMapPages ? uint32_t{kCardWrites} : 0;
  for (uint64_t i = 0; i < count; i++) {
    const Mmu::Entry entry{address + i * kPageBytes, rights};
    if (const Status status = pages_.set(context, page + i, entry); status != Status::ok)
      return status;
  }
  return Status::ok;
}

Status TnetModel::map_index(unsigned context, const Control& in) {
  if (in.words[0] >= kIndices) return Status::invalid;
  std::vector<Place>& places = table_[static_cast<uint32_t>(in.words[0])];
  std::erase_if(places, [&](const Place& place) { return place.context == context; });
  if (in.call == kUnmapIndex) return Status::ok;
  if (places.size() == kIndexTargets) return Status::no_memory;
  places.push_back({context, in.words[1]});
  return Status::ok;
}

Status TnetModel::queue(unsigned context, const Control& in) {
  Process& process = processes_[context];
  const auto word = [&](size_t i) { return static_cast<uint32_t>(in.words[i]); };
  if (process.waiting == kSendsMax) return Status::again;
  process.waiting++;
  transfers_.push_back({context, process.name, {word(0), word(1), word(2), word(3)}, in.words[4]});
  next_transfer();
  return Status::ok;
}

Status TnetModel::group(unsigned context, const Control& in, Control* out) {
  const auto call = static_cast<GroupCall>(in.call - kJoin);
  const Status status = board_.group_call(call, context, in, out);
  if (status != Status::ok || call != GroupCall::join) return status;
  const uint64_t destination =
      board_.manager.multicast(static_cast<uint32_t>(out->words[0]), board_.node);
  out->words[1] = destination;
  validate(context, destination);
  return Status::ok;
}

void TnetModel::validate(unsigned context, uint64_t destination) {
  std::vector<bool>& valid = processes_[context].valid;
  if (valid.size() <= destination) valid.resize(destination + 1);
  valid[destination] = true;
}

std::string TnetModel::report() const {
  return format_text(
      "%llu packets out, %llu in, %llu to invalid destinations, %llu to unmapped "
      "pages, %llu refused",
      packets_out_, packets_in_, bad_destinations_, bad_pages_, refused_);
}

}  // namespace

std::unique_ptr<Model> make_model(const Board& board) { return std::make_unique<TnetModel>(board); }

}  // namespace torii::nic::tnet
