// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The PCI-SCI card. Private to the model.
//
// Requests and responses wait in buffers of their own (IEEE 1596): a card takes each response at
// once, and an echo as well. A request without a buffer is answered `busy` and comes again. What a
// card does for a request takes its host's memory only, so all of them end.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "nic/mmu.h"
#include "nic/model.h"
#include "nic/sci/regs.h"

namespace torii::nic::sci {

enum class Command : uint8_t { write, read, response, echo };

enum class Result : uint8_t {
  ok,
  busy,         // of an echo: no buffer
  refused,      // no such page, or not these rights
  lost,         // it came again when the response was given up
  unreachable,  // on no packet: there is no way
};

struct Header {  // of each packet: 16 bytes, as in SCI
  uint16_t to, from;
  Command command;
  uint8_t of;        // of a read: bytes; of an echo: the Command that it answers
  Result result;     // of echoes and responses
  uint8_t buffer;    // of the requester's
  uint32_t number;   // of the requester's requests to this node
  uint32_t address;  // upstream, of requests
  // Data: of a write, of the response to a read.
};
static_assert(sizeof(Header) == 16);

class SciCard final : public Model {
 public:
  explicit SciCard(const Board& board);

  void open(unsigned context, Name name, uint64_t shared_address) override;
  bool idle(unsigned context) const override;
  void gone(unsigned context) override;
  void bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) override;
  uint32_t bus_read(unsigned context, uint32_t at) override;
  Status control(unsigned context, const nic::Control& in, nic::Control* out) override;
  void arrive(Packet&& packet) override;
  void port_ready() override {
    is_down_ = false;
    pump();
  }
  void port_down() override;
  std::string report() const override;

 private:
  using Bytes = std::vector<std::byte>;
  enum Channel : uint8_t { kRequests, kResponses, kEchoes };  // none waits for another one
  static constexpr unsigned kBusTries = 5;
  static constexpr uint64_t kBytesOfProcess = uint64_t{kPages} * kPageBytes;  // upstream
  static constexpr uint32_t kEntered = 8;  // beside PageRights, and of each page downstream

  struct Job {  // a descriptor
    uint32_t at = 0;
    Descriptor d{};  // without segments until it is loaded; the kernel driver's has some
    bool is_fetching = false;
    uint32_t cut = 0;  // bytes for which requests were made
    uint32_t out = 0;  // requests and stores to memory here that are under way
    uint32_t status = 0;
    Bytes data{};  // fetched, from `cut` on
  };
  struct Vi {
    unsigned context = 0, number = 0;
    std::deque<Job> jobs{};  // the first one is under way
    uint64_t serial = 0;     // of that; 0: none has begun
    bool is_broken = false;
  };
  struct Store {  // without data a barrier
    Header header{};
    Bytes data{};
    Vi* vi = nullptr;  // of a barrier: what is to be posted behind it
    Job job{};
    uint64_t ready_ns = 0;
  };
  struct Process {
    Name name = kNobody;
    uint64_t shared = 0;
    uint32_t cause = 0, mask = 0;
    std::deque<Store> stores;
    uint32_t stores_out = 0;  // requests of stores under way
    uint32_t queue = 0, entries = 0, completions = 0;
    std::array<Vi, kVis> vis;
  };
  struct Owner {  // of a request of this card
    unsigned context = 0;
    Name name = kNobody;
    Vi* vi = nullptr;     // null: it is a store
    uint64_t job = 0;     // its serial
    uint32_t offset = 0;  // in it
  };
  // Of a request of this card until its response, of another card's until its response's echo.
  struct Buffer {
    uint64_t serial = 0;  // of its use; 0: it is free
    uint64_t due_ns = 0;  // when it is sent again; 0: it was not sent
    bool is_queued = false;
    Header header{};                 // of the request
    uint32_t node = 0;               // the other one
    Bytes bytes;                     // the packet; of another card's request first its data
    Owner owner;                     // nobody, of another card's
    std::shared_ptr<Flight> flight;  // of another card's request, until it is done
  };
  struct Node {
    uint32_t next = 1;  // number of the next request there
    // Of its requests the last one, by its buffer there: numbers grow, so that none is done twice.
    std::array<uint32_t, kBuffersMax> seen{};
    uint64_t refused = 0;   // serial of the first `busy` in a row
    uint64_t until_ns = 0;  // then a buffer is no longer kept for it
  };

  // card.cc
  bool is_there(unsigned context, Name name) const { return processes_[context].name == name; }
  void raise(unsigned context, uint32_t cause);  // 0: those that were raised before
  void refuse(unsigned context) {                // a store
    bad_stores_++;
    raise(context, kCauseRefused);
  }
  void store(unsigned context, uint32_t at, std::span<const std::byte> bytes);
  void add_store(unsigned context, Store store);
  Status export_pages(unsigned context, const nic::Control& in);
  Status import_pages(unsigned context, const nic::Control& in);
  Status transfer(unsigned context, const nic::Control& in);

  // ring.cc
  void pump();
  bool issue_store(unsigned context);
  std::span<Buffer> buffers(Channel channel) {
    return std::span(buffers_).subspan(channel * kBuffersMax, kBuffersMax);
  }
  size_t channel_of(const Buffer& buffer) const {
    return static_cast<size_t>(&buffer - buffers_.data()) / kBuffersMax;
  }
  Buffer& take_buffer(Channel channel, const Header& header, uint32_t node);
  void start(const Owner& owner, Header header, std::span<const std::byte> data);
  void queue(Buffer& buffer);
  void send_queued(Channel channel);
  void look_after(Buffer& buffer, uint64_t ns);
  void watch();
  void end(Buffer& buffer, Result result, std::span<const std::byte> data = {});
  void take_request(const Header& header, std::span<const std::byte> data, Packet&& packet);
  Buffer* find_served(const Header& header);
  bool admits(uint32_t node);
  void serve(Buffer& served);
  void respond(Buffer& served, Result result, std::span<const std::byte> data = {});
  void echo(const Header& to, Result result);

  // dma.cc
  bool translate(unsigned context, uint64_t local, uint64_t* address) const;
  bool find_import(unsigned context, uint64_t remote, Header* target) const;
  template <typename Then>
  auto under_way(Vi& vi, Then then);
  void post(Vi& vi, Job job);
  void begin(Vi& vi);
  void check(const Vi& vi, Job& job);
  void fetch(Vi& vi);
  bool issue_part(Vi& vi);
  void end_part(const Buffer& request, Result result, std::span<const std::byte> data);
  void settle(Vi& vi);

  const Board board_;
  const unsigned reader_, server_, writer_;  // DMA channels
  uint32_t personality_ = kCombined;
  std::vector<Process> processes_;
  // A slot is a process's, and so are all tags in it.
  Mmu upstream_, downstream_;
  std::vector<Node> nodes_;
  uint64_t serials_ = 0;

  std::array<Buffer, 2 * kBuffersMax> buffers_;  // those of requests come first
  std::array<unsigned, 2> used_{}, limits_{kBuffersMax, kBuffersMax};  // of these, by channel
  std::array<std::deque<Buffer*>, 2> queues_;                          // of these, by channel
  std::deque<Bytes> echoes_;
  unsigned turn_ = 0;                           // of the stores and VIs of all processes
  bool is_down_ = false, is_watching_ = false;  // an event will watch()

  unsigned long long requests_out_ = 0, requests_in_ = 0, busy_ = 0, repeated_ = 0, bad_crc_ = 0,
                     bad_stores_ = 0, bad_descriptors_ = 0, bad_requests_ = 0;
};

}  // namespace torii::nic::sci
