// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The `self` driver: one peer, 0, which is this process. send() copies a frame into a ring of
// bytes; poll() hands it up from there, so a packet never arrives inside the call that sent it.
#pragma once

#include <memory>
#include <vector>

#include "drivers/done_queue.h"

namespace torii {

class SelfDriver final : public Driver {
 public:
  explicit SelfDriver(const DriverEnv& env);
  ~SelfDriver() override;
  SelfDriver(const SelfDriver&) = delete;
  SelfDriver& operator=(const SelfDriver&) = delete;

  // Takes the memory of the queue; false, with *why, when there is none.
  bool start(std::string* why);

  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override;
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override;
  void disconnect(PeerId peer) override;
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override;
  void dereg(Region& region) override;
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override;
  void drop(uint32_t remote) override;
  Status put(const Rma& rma) override;
  Status get(const Rma& rma) override;
  Status arm(int* fd) override;

 private:
  struct Key {  // the wire form of a memory key
    uint64_t owner;
    uint32_t slot;
    uint32_t generation;
  };
  struct Exported {
    std::byte* base;
    uint64_t bytes;
    uint32_t access;      // Access bits; 0: the slot is free
    uint32_t generation;  // grows when the slot is reused
  };
  struct Import {
    Key key;
    bool used;
  };

  bool enqueue(const Tx& tx);
  bool work() const { return used_ != 0 || !done_.empty(); }
  [[gnu::noinline]] unsigned deliver(unsigned budget);
  void wake();
  // The local address of a remote access, or null if the key, the rights or the bounds forbid it.
  std::byte* resolve(const Rma& rma, uint32_t access) const;

  DriverCaps caps_;
  Sink& sink_;
  uint64_t identity_;  // random; what address() and keys are checked against
  int event_fd_ = -1;
  bool armed_ = false;  // asleep, or about to: a frame must make event_fd_ readable

  std::unique_ptr<std::byte[]> ring_;
  size_t head_ = 0;  // offset of the oldest frame
  size_t tail_ = 0;  // offset of the first free byte
  size_t used_ = 0;  // bytes between them, skipped ones included

  DoneQueue done_;  // of frames taken
  std::vector<Exported> exported_;
  std::vector<uint32_t> free_exported_;
  std::vector<Import> imports_;
  std::vector<uint32_t> free_imports_;
};

}  // namespace torii
