// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A node of a fabric: its card, bus and memory, and the processes that use the card. Private to the
// fabric.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/descriptor.h"
#include "core/base/sealed_memory.h"
#include "nic/fabric.h"

namespace torii::nic {

// Memory that a process and its card share; both keep it. The manager's words for this process
// come first, so that no process can spoil those of another.
struct Lent {
  Lent(uint32_t endpoints, size_t bytes);
  explicit operator bool() const { return memory && event; }  // false, with errno: none to be had
  std::span<Liveness::Word> words() const {
    return {reinterpret_cast<Liveness::Word*>(memory.base()), 1 + size_t{endpoints}};
  }
  std::byte* shared() const { return memory.base() + liveness_bytes(endpoints); }

  const uint32_t endpoints;
  const size_t bytes;  // of shared()
  Descriptor file;
  Mapping memory;
  Descriptor event;
};

// One process, from open() until its card has nothing more of it.
struct Context {
  enum class State : uint8_t { free, open, closing };
  bool is_of(Name process) const { return state == State::open && name == process; }

  State state = State::free;
  Name name = kNobody;  // while it is free, of the last process
  Life life = Life::never;
  std::shared_ptr<Lent> lent;
  Host* host = nullptr;
  ProcessMemory* memory = nullptr;  // null: its memory is this process's
  std::shared_ptr<Flight> flight = std::make_shared<Flight>();
};

class Node final : public HostMemory, public Port, public LinkEnd {
 public:
  Node(Fabric& fabric, uint32_t number);

  Status open(unsigned context, Host* host, ProcessMemory* memory, std::string* why);
  void close(unsigned context);  // its process sends no more, but the card has still to do for it
  void free(unsigned context);
  uint64_t shared_address(unsigned context) const;
  Status map(unsigned context, uintptr_t base, size_t n, uint32_t rights, uint64_t* address);
  void unmap(unsigned context, uint64_t address);
  void publish(uint32_t endpoint, uint32_t word);  // to this node's processes
  void tell();                                     // them that something has changed
  Life life(Name name) const;                      // as its processes see it
  // Memory of the card. Empty: it has none, or the system does not give it.
  std::span<std::byte> memory() const {
    return {memory_.base(), file_ ? fabric.kind().memory_bytes : 0};
  }
  int memory_file() const { return file_.get(); }
  void connect(unsigned, Link* in, Link* out) override {
    in_ = in;
    out_ = out;
  }

  Status move(bool write, uint64_t address, std::span<std::byte> here) override;
  bool is_far(uint64_t address) override {  // memory of another process
    uintptr_t at;
    const Mapped* const mapped = find(address, 1, 0, &at);
    return mapped && mapped->memory;
  }
  bool find_page(unsigned context, uint64_t at, uint64_t* address) override;
  void interrupt(unsigned context) override;

  using Port::ready;
  using Port::release;
  using Port::send;
  bool ready(unsigned channel) const override { return out_->ready(channel); }
  void send(unsigned context, Packet&& packet) override;
  void steal(std::vector<std::byte> bytes) override;
  void release(unsigned channel) override { in_->release(channel); }

  void link_ready(Link&) override { model->port_ready(); }
  void link_down(Link& link, std::vector<Packet>&& unsent) override;
  void link_arrive(Link&, Packet&& packet) override { model->arrive(std::move(packet)); }

  Fabric& fabric;
  const uint32_t number;
  std::vector<Context> contexts;
  Bus bus;
  std::unique_ptr<Model> model;

 private:
  struct Mapped {
    uintptr_t base;
    size_t bytes;
    uint32_t rights;
    unsigned context;
    ProcessMemory* memory;  // null: of this process
  };
  void mark(Packet& packet);
  // Null: that is not mapped, or not for this. *at is where it is in its process.
  const Mapped* find(uint64_t address, size_t bytes, uint32_t rights, uintptr_t* at) const;
  Status move_process(bool write, uint64_t address, std::span<std::byte> bytes);

  Mapping memory_;
  const Descriptor file_;  // of it
  Link* in_ = nullptr;
  Link* out_ = nullptr;
  std::map<uint64_t, Mapped> mapped_;  // by bus address
  std::vector<uint32_t> words_;        // by endpoint, as its processes see them
};

// A context of a model in this process.
class DirectCard final : public Card {
 public:
  DirectCard(Node& node, unsigned context);
  ~DirectCard() override;

  const CardInfo& info() const override { return info_; }
  Liveness liveness() const override { return Liveness(lent_->words()); }
  void write32(uint32_t at, uint32_t value) override { write(at, &value, sizeof(value)); }
  void write(uint32_t at, const void* from, size_t n) override;
  uint32_t read32(uint32_t at) override {
    uint32_t value;
    read(at, &value, sizeof(value));
    return value;
  }
  void read(uint32_t at, void* to, size_t n) override;
  std::span<const std::byte> window() const override { return node_.memory(); }
  Status map(void* base, size_t n, uint32_t rights, uint64_t* address) override;
  void unmap(uint64_t address) override;
  std::span<std::byte> shared() override { return {lent_->shared(), lent_->bytes}; }
  Status control(const Control& in, Control* out) override;
  void post(const Control& in) override {
    Control ignored;
    static_cast<void>(control(in, &ignored));
  }
  int interrupt() override { return lent_->event.get(); }

 private:
  bool alive() const { return node_.contexts[context_].is_of(info_.name); }
  bool inside(uint32_t at, size_t n) const;

  Node& node_;
  const unsigned context_;
  CardInfo info_;
  const std::shared_ptr<Lent> lent_;
};

}  // namespace torii::nic
