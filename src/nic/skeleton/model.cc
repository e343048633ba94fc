// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The skeleton card. A doorbell makes it fetch descriptors, and then the frames, by DMA; each frame
// is a packet. A packet that comes in goes to the buffer of the next completion. Without a free
// completion it stays in the card, and so do those behind it: the network waits for the driver.
#include "nic/skeleton/model.h"

#include <cstddef>
#include <utility>

#include "core/base/log.h"

namespace torii::nic::skeleton {
namespace {

struct Header {  // of a packet
  uint16_t node;
  uint16_t reserved;
  Name to;
  Name from;
};
static_assert(sizeof(Header) == 12);

class SkeletonModel final : public Model {
 public:
  explicit SkeletonModel(const Board& board)
      : board_(board), channel_(board_.bus.add_channel()), receiver_(board_.bus.add_channel()) {}

  void open(unsigned, Name name, uint64_t shared_address) override;
  bool idle(unsigned) const override { return sent_ == doorbell_; }
  void gone(unsigned context) override;
  void bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) override;
  uint32_t bus_read(unsigned context, uint32_t at) override;
  void arrive(Packet&& packet) override;
  void port_ready() override {
    down_ = false;
    fetch();
  }
  void port_down() override {
    down_ = true;
    fetch();
  }
  std::string report() const override;

 private:
  uint64_t address(size_t offset) const { return shared_ + offset; }
  bool has_completion() const { return completed_ - consumed_ < kCompletions; }
  void fetch();
  void fetch_frame(const Descriptor& descriptor);
  void send(const Descriptor& descriptor, std::span<const std::byte> frame);
  void ended(Name name);
  void receive();
  void complete(Completion completion, std::shared_ptr<Flight> flight);
  void signal();

  const Board board_;
  const unsigned channel_, receiver_;  // of DMA
  Name name_ = kNobody;                // of the process; kNobody: there is none
  uint64_t shared_ = 0;
  uint32_t doorbell_ = 0;   // descriptors written
  uint32_t sent_ = 0;       // and carried out
  uint32_t owed_ = 0;       // of these, not yet told by a completion
  uint32_t completed_ = 0;  // completions begun
  uint32_t written_ = 0;    // and written
  uint32_t consumed_ = 0;   // and read
  bool interrupt_ = false;  // if there are more than
  uint32_t seen_ = 0;       // those
  bool fetching_ = false;
  bool down_ = false;           // the cable: what is to leave is lost
  std::deque<Packet> arrived_;  // that wait for a completion
  unsigned long long refused_ = 0, frames_out_ = 0, frames_in_ = 0;
};

void SkeletonModel::open(unsigned, Name name, uint64_t shared_address) {
  name_ = name;
  shared_ = shared_address;
  doorbell_ = sent_ = owed_ = completed_ = written_ = consumed_ = 0;
  interrupt_ = false;
}

void SkeletonModel::gone(unsigned) {
  name_ = kNobody;
  doorbell_ = sent_;
  owed_ = 0;
  receive();  // nobody takes what waits
}

// --- registers -------------------------------------------------------------------------------

void SkeletonModel::bus_write(unsigned, uint32_t at, std::span<const std::byte> bytes) {
  const auto value = header_of<uint32_t>(bytes);
  switch (at) {
    case kDoorbell:
      if (value - sent_ > kSends) {  // more than the ring has
        refused_++;
        return;
      }
      doorbell_ = value;
      fetch();
      break;
    case kConsumed:
      if (value - consumed_ > completed_ - consumed_) {  // some that were not written yet
        refused_++;
        return;
      }
      consumed_ = value;
      receive();
      break;
    case kInterrupt:
      interrupt_ = true;
      seen_ = value;
      signal();
      break;
    default:
      refused_++;
  }
}

uint32_t SkeletonModel::bus_read(unsigned, uint32_t at) { return at == kId ? kIdValue : 0; }

// --- sending ---------------------------------------------------------------------------------

// One descriptor at a time: fetched, its frame fetched, sent.
void SkeletonModel::fetch() {
  if (down_ && !fetching_) {
    for (; sent_ != doorbell_; sent_++) owed_++;
    return receive();
  }
  if (fetching_ || sent_ == doorbell_ || !board_.port.ready()) return;
  fetching_ = true;
  const size_t offset = offsetof(Shared, descriptors) + sent_ % kSends * sizeof(Descriptor);
  board_.bus.dma_read(channel_, address(offset), sizeof(Descriptor),
                      [this, name = name_](Status status, std::span<const std::byte> bytes) {
                        const auto descriptor = header_of<Descriptor>(bytes);
                        if (name != name_ || status != Status::ok || descriptor.bytes > kFrameMax) {
                          refused_ += name == name_;
                          return ended(name);
                        }
                        fetch_frame(descriptor);
                      });
}

void SkeletonModel::fetch_frame(const Descriptor& descriptor) {
  board_.bus.dma_read(
      channel_, descriptor.address, descriptor.bytes,
      [this, name = name_, descriptor](Status status, std::span<const std::byte> frame) {
        if (name == name_ && status == Status::ok) {
          send(descriptor, frame);
        } else {
          refused_ += name == name_;
        }
        ended(name);
      });
}

void SkeletonModel::send(const Descriptor& descriptor, std::span<const std::byte> frame) {
  const Header header{static_cast<uint16_t>(endpoint_of(descriptor.to)), 0, descriptor.to, name_};
  if (down_) return;
  board_.port.send(0, make_bytes(header, frame));
  frames_out_++;
}

// With the descriptor that it was about; it is told as soon as there is a completion for it.
void SkeletonModel::ended(Name name) {
  fetching_ = false;
  if (name == name_ && sent_ != doorbell_) {
    sent_++;
    owed_++;
  }
  receive();
  fetch();
}

// --- receiving -------------------------------------------------------------------------------

void SkeletonModel::arrive(Packet&& packet) {
  // Perhaps the process it was for has ended.
  if (packet.bytes.size() < sizeof(Header) || header_of<Header>(packet.bytes).to != name_)
    return board_.port.release();
  arrived_.push_back(std::move(packet));
  receive();
}

// Tells what is to be told, while there are completions.
void SkeletonModel::receive() {
  for (; name_ != kNobody && owed_ > 0 && has_completion(); owed_--) complete({}, nullptr);
  while (!arrived_.empty() && (name_ == kNobody || has_completion())) {
    const Packet packet = std::move(arrived_.front());
    arrived_.pop_front();
    board_.port.release();
    if (name_ == kNobody) continue;
    const auto header = header_of<Header>(packet.bytes);
    const std::span frame = std::span(packet.bytes).subspan(sizeof(header));
    const size_t offset = offsetof(Shared, receive) + completed_ % kCompletions * kFrameMax;
    board_.bus.dma_write(receiver_, address(offset), {frame.begin(), frame.end()}, nullptr);
    complete({static_cast<uint32_t>(frame.size()), header.from, 0, 0}, packet.flight);
    frames_in_++;
  }
}

// `flight`: the sender counts as open until its frame is told.
void SkeletonModel::complete(Completion completion, std::shared_ptr<Flight> flight) {
  const size_t offset =
      offsetof(Shared, completions) + completed_ % kCompletions * sizeof(Completion);
  completion.number = ++completed_;
  board_.bus.dma_write(receiver_, address(offset), make_bytes(completion),
                       [this, name = name_, flight](Status) {
                         if (name != name_) return;
                         written_++;
                         signal();
                       });
}

void SkeletonModel::signal() {
  if (!interrupt_ || written_ == seen_) return;
  interrupt_ = false;
  board_.bus.interrupt(0);
}

std::string SkeletonModel::report() const {
  return format_text("%llu frames out, %llu in, %llu refused", frames_out_, frames_in_, refused_);
}

}  // namespace

std::unique_ptr<Model> make_model(const Board& board) {
  return std::make_unique<SkeletonModel>(board);
}

}  // namespace torii::nic::skeleton
