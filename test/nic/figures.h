// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Benchmarks of emulated cards on timed hosts: two hosts and a switch, ping-pong. All times are
// those of the virtual clock, so they are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace torii::figures {

// The time that the hosts' software takes: the cards do not know it.
struct Software {
  uint64_t frame_ns = 0;    // of a frame, on each side
  uint64_t dma_ns = 0;      // beside, if the card moves it: pinning, translation, caches
  uint64_t message_ns = 0;  // of MPI, for a message, on each side
  uint64_t copy_ns = 0;     // of MPI's copy at the receiver, for each byte
};

struct Setup {
  std::string card;      // that of the fabric, and "myrinet/raw"
  uint32_t pio_max = 0;  // Myrinet: bytes of a body up to which the processor moves it
  Software software{};
  std::vector<std::pair<std::string, std::string>> parameters{};  // of the fabric
};

// One way, in ns. 0, with the reason on standard error: the hosts waited for what never happened.
double frame_ns(const Setup& setup, size_t bytes);
// Until the sender of a frame knows that it has arrived, because the other driver says so.
double acknowledged_ns(const Setup& setup, size_t bytes);
// The time of a message of a tagged port.
double message_ns(const Setup& setup, size_t bytes);

// QsNet on a fat tree; see qsnet.cc. Rates in bytes a microsecond.
double software_barrier_ns(uint32_t hosts);
double hardware_barrier_ns(uint32_t hosts);
double broadcast_rate(uint32_t hosts);
double put_rate(uint32_t writers);

inline double mbit_per_s(size_t bytes, double ns) { return static_cast<double>(bytes) * 8e3 / ns; }

}  // namespace torii::figures
