// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

#include "nic/model.h"
#include "nic/sci/regs.h"

namespace torii::nic::sci {

std::unique_ptr<Model> make_model(const Board& board);
std::unique_ptr<RoutePolicy> make_switches(const Routes& routes);

// Dolphin's LC-2 on a 64-bit, 33-MHz PCI bus: Trams et al. 1999. Stores at 80 MB/s were measured.
// The link's 400 MB/s, the way through a node of the ring and the costs of DMA are assumptions.
inline constexpr CardKind kKind = {
    .name = "sci",
    .doc = "PCI-SCI with VIA: stores to other nodes' memory, RDMA by descriptors, tags; ringlets",
    .contexts = kContexts,
    .bar_bytes = kBarBytes,
    .shared_bytes = kSharedBytes,
    .memory_bytes = 0,
    .source_routed = true,  // packets that a new route finds under way are lost; cards repeat them
    .link = {.rate = 3.2e9,
             .delay_ns = 25,
             .overhead = 2,
             .head = 16,
             .buffers = 4,
             .window = 0,
             .timeout_ns = 20000,
             .tries = 8,
             .channels = true},
    .bus = {.write_ns = 60,
            .read_ns = 400,
            .read_busy_ns = 400,
            .burst_rate = 80e6,
            .dma_read_rate = 200e6,
            .dma_write_rate = 200e6,
            .dma_setup_ns = 120,
            .dma_burst = 512},
    .crossbar = {.latency_ns = 70, .ports = 12, .cut_through = true},
    .make = make_model,
    .make_switches = make_switches,
};

}  // namespace torii::nic::sci
