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
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

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
  void port_ready() override;
  void port_down() override;
  std::string report() const override;

 private:
  using Bytes = std::vector<std::byte>;
  static constexpr unsigned kStore = kVis;  // beside the VIs: whose request it is
  static constexpr uint32_t kNumbers = 64;  // of one node that may be under way

  struct Store {  // or barrier, or doorbell
    enum class Kind : uint8_t { data, barrier, doorbell } kind = Kind::data;
    uint64_t ready_ns = 0;
    uint32_t node = 0, address = 0;  // of a doorbell: VI, address
    Bytes data;
  };
  struct Job {  // a descriptor
    uint32_t at = 0;
    bool is_checked = false;  // by the kernel driver: the tags do not count
    bool is_loaded = false, is_fetching = false;
    Descriptor d{};
    uint32_t cut = 0;  // bytes for which requests were made
    uint32_t out = 0;  // requests and stores to memory here that are under way
    uint32_t status = 0;
    Bytes data;  // fetched, from `cut` on
  };
  struct Vi {
    std::deque<Job> jobs;  // the first one is under way
    uint64_t serial = 0;   // of that; 0: none has begun
    bool is_broken = false;
  };
  struct Process {
    Name name = kNobody;
    uint64_t shared = 0;
    uint32_t tag = 0;
    uint32_t cause = 0, mask = 0;
    std::deque<Store> stores;
    uint32_t stores_out = 0;  // requests of stores under way
    uint32_t queue = 0, entries = 0, completions = 0;
    std::array<Vi, kVis> vis;
  };
  struct Upstream {
    uint64_t address = 0;
    uint32_t rights = 0, tag = 0;  // 0: not valid
  };
  struct Downstream {
    uint32_t tag = 0, node = 0, address = 0;  // 0: not valid
  };
  struct Kept {  // with a packet that waits to be sent, or for its echo
    bool is_queued = false;
    uint64_t serial = 0;   // of its use; 0: it is free
    uint64_t attempt = 0;  // to send it
    Header header{};       // of the request
    Bytes packet;
  };
  struct Request : Kept {  // of this card
    unsigned context = 0, vi = kStore;
    Name name = kNobody;
    uint64_t job = 0;     // its serial
    uint32_t offset = 0;  // in it
  };
  struct Served : Kept {  // a request of another card, until its response has arrived
    Bytes data;
    std::shared_ptr<Flight> flight;
  };
  struct Node {
    uint32_t next = 1;                      // number of the next request there
    std::array<uint32_t, kNumbers> seen{};  // of its requests: by the number's last bits
  };
  struct Refused {
    uint32_t node;
    uint64_t until_ns;
  };

  // card.cc
  bool is_there(unsigned context, Name name) const { return processes_[context].name == name; }
  void raise(unsigned context, uint32_t cause);  // 0: those that were raised before
  void store(unsigned context, uint32_t at, std::span<const std::byte> bytes);
  void add_store(unsigned context, Store store);
  Status export_pages(unsigned context, const nic::Control& in);
  Status import_pages(unsigned context, const nic::Control& in);
  Status transfer(unsigned context, const nic::Control& in);
  bool owns(unsigned context, uint64_t address, uint64_t bytes, uint64_t each) const;
  void pump_later(uint64_t ns);
  // As those of the bus; one that fails is tried again.
  void read_host(unsigned channel, uint64_t address, size_t bytes, Bus::ReadDone done,
                 unsigned tries = 0);
  void write_host(uint64_t address, Bytes bytes, Bus::WriteDone done, unsigned tries = 0);

  // ring.cc
  void pump();
  bool issue_store(unsigned context);
  bool may_send(uint32_t node) const;
  static Request make_request(unsigned context, Command command, uint32_t node, uint32_t address);
  void start(Request request, std::span<const std::byte> data);
  Kept& kept(unsigned channel, unsigned i);
  void queue(unsigned channel, unsigned i);
  void send_kept(unsigned channel);
  void look_after(unsigned channel, unsigned i, uint64_t attempt);
  void end_request(unsigned i, Result result, std::span<const std::byte> data = {});
  void take_echo(const Header& header);
  void take_request(const Header& header, std::span<const std::byte> data, Packet&& packet);
  Served* find_served(const Header& header);
  bool admits(uint32_t node);
  void serve(unsigned i);
  void respond(unsigned i, Result result, std::span<const std::byte> data = {});
  void echo(const Header& to, Result result);

  // dma.cc
  void post(unsigned context, unsigned vi, Job job);
  void begin(unsigned context, unsigned vi);
  void check(unsigned context, Job& job);
  void fetch(unsigned context, unsigned vi);
  bool issue_part(unsigned context, unsigned vi);
  void end_part(const Request& request, Result result, std::span<const std::byte> data);
  void settle(unsigned context, unsigned vi);
  void advance(unsigned context, unsigned vi);
  void complete(unsigned context, unsigned vi);
  Job* find_job(unsigned context, unsigned vi, uint64_t serial);
  bool is_its(unsigned context, bool is_checked, uint32_t tag) const;
  bool translate(unsigned context, bool is_checked, uint64_t local, uint64_t* address) const;
  const Downstream* import_of(unsigned context, bool is_checked, uint64_t remote) const;

  const Board board_;
  const unsigned reader_, server_, writer_;  // DMA channels
  uint32_t personality_ = kCombined;
  std::vector<Process> processes_;
  std::vector<Upstream> upstream_;
  std::vector<Downstream> downstream_;
  std::vector<Node> nodes_;
  uint32_t tags_ = 0;
  uint64_t serials_ = 0;

  std::array<Request, kBuffersMax> requests_;
  std::array<Served, kBuffersMax> served_;
  uint32_t request_buffers_ = kBuffersMax, served_buffers_ = kBuffersMax;
  std::array<std::deque<unsigned>, 2> queues_;  // by channel, of requests and responses
  std::deque<Bytes> echoes_;
  std::deque<Refused> refused_;  // nodes that were told `busy`, in that order
  unsigned turn_ = 0;            // of the stores and VIs of all processes
  bool is_down_ = false;

  uint64_t requests_out_ = 0, requests_in_ = 0, busy_ = 0, repeated_ = 0, bad_crc_ = 0;
  uint64_t bad_stores_ = 0, bad_descriptors_ = 0, bad_requests_ = 0;
};

}  // namespace torii::nic::sci
