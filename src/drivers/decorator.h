// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A driver over a driver. It passes everything through, both ways; decorators override what they
// change. Everything in driver.h holds for the driver it makes.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "drivers/interfaces.h"

namespace torii {

// Opens the driver below with this environment, whose sink is the decorator. Null: no driver.
using OpenBelow = std::function<std::unique_ptr<Driver>(const DriverEnv& env)>;

class Decorator : public Driver, protected Sink {
 public:
  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override { below_->address(out); }
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override {
    return below_->connect(address, peer, why);
  }
  void disconnect(PeerId peer) override { below_->disconnect(peer); }
  size_t send(std::span<const Tx> batch) override { return below_->send(batch); }
  unsigned poll(uint64_t now_ns, unsigned budget) override { return below_->poll(now_ns, budget); }
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    return below_->reg(base, bytes, access, out);
  }
  void dereg(Region& region) override { below_->dereg(region); }
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override {
    return below_->import(peer, key, remote);
  }
  void drop(uint32_t remote) override { below_->drop(remote); }
  void take(void* to, const std::byte* from, size_t bytes) override {
    below_->take(to, from, bytes);
  }
  Status alloc(uint64_t bytes, uint64_t alignment, void** base) override {
    return below_->alloc(bytes, alignment, base);
  }
  void dealloc(void* base) override { below_->dealloc(base); }
  Status put(const Rma& rma) override { return below_->put(rma); }
  Status get(const Rma& rma) override { return below_->get(rma); }
  Status atomic(const RemoteAtomic& atomic) override { return below_->atomic(atomic); }
  Status join(std::span<const std::byte> group, PeerId* peer) override {
    return below_->join(group, peer);
  }
  void leave(PeerId peer) override { below_->leave(peer); }
  Status arm(int* fd) override { return below_->arm(fd); }
  Paths* paths() override { return below_->paths(); }
  Advice* advice() override { return below_->advice(); }
  RegisteredMemory* registered_memory() override { return below_->registered_memory(); }
  MappedMemory* mapped_memory() override { return below_->mapped_memory(); }
  // Not the one below: what a decorator does to frames it has to do to these, too.
  ShortFrames* short_frames() override { return nullptr; }
  LossyGroups* lossy_groups() override { return below_->lossy_groups(); }

 protected:
  explicit Decorator(const DriverEnv& env) : upper_(*env.sink) {}

  // Opens the driver below; call it once, before anything else. False if that failed.
  bool open(const OpenBelow& open_below, const DriverEnv& env) {
    DriverEnv inner = env;
    inner.sink = this;
    below_ = open_below(inner);
    if (below_) caps_ = below_->caps();
    return below_ != nullptr;
  }

  // Passes a put, get or atomic operation on, under a cookie of this driver's: `operations` knows
  // it by that until done().
  template <typename Access, typename Operations>
  Status pass_on(const Access& access, Status (Driver::*call)(const Access&),
                 Operations& operations, uint64_t& next_cookie) {
    Access inner = access;
    if (access.cookie) {
      inner.cookie = next_cookie++;
      operations[inner.cookie] = {access.peer, access.cookie};
    }
    const Status status = (*below_.*call)(inner);
    if (status != Status::pending) operations.erase(inner.cookie);
    return status;
  }

  void packet(PeerId from, std::span<const std::byte> frame) override {
    upper_.packet(from, frame);
  }
  void done(uint64_t cookie, Status status) override { upper_.done(cookie, status); }
  void peer_down(PeerId peer, Status status) override { upper_.peer_down(peer, status); }

  Sink& upper_;
  std::unique_ptr<Driver> below_;
  DriverCaps caps_;  // what this driver declares; starts as the one below
};

}  // namespace torii
