// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

#include "nic/model.h"
#include "nic/tnet/regs.h"

namespace torii::nic::tnet {

std::unique_ptr<Model> make_model(const Board& board);

// 1 Gbit/s, micropackets of 128 bytes with header and CRC, a window of 3 packets: Riedo 2000. The
// switch's latency and the efficiency of DMA on a 32-bit, 33-MHz PCI bus are assumptions.
inline constexpr CardKind kKind = {
    .name = "tnet",
    .doc = "TNet, 32-bit PCI: remote stores, page table on the card, multicast by the switch",
    .contexts = 2,
    .bar_bytes = kBarBytes,
    .shared_bytes = kSharedBytes,
    .memory_bytes = 0,
    .source_routed = false,
    .link = {.rate = 1e9, .head = 12, .buffers = 16, .window = 3},
    .bus = {.burst_rate = 100e6,
            .dma_read_rate = 105.6e6,
            .dma_write_rate = 105.6e6,
            .dma_setup_ns = 0,
            .dma_burst = 448},
    .crossbar = {.ports = 12},
    .make = make_model,
};

}  // namespace torii::nic::tnet
