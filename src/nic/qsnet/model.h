// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

#include "nic/model.h"
#include "nic/qsnet/regs.h"

namespace torii::nic::qsnet {

std::unique_ptr<Model> make_model(const Board& board);
std::unique_ptr<RoutePolicy> make_switches(const Routes& routes);

// Elites of eight links with two virtual channels each: Petrini et al. 2002. All figures are
// assumptions: 400 MB/s a link, packets of 320 bytes of data, 35 ns in a switch, cables of 5 m, and
// a bus on which DMA gets 400 MB/s after 150 ns.
inline constexpr CardKind kKind = {
    .name = "qsnet",
    .doc = "QsNet, Elan3 and Elite: remote DMA to any memory, queues, broadcast to ranges",
    .contexts = 4,
    .bar_bytes = kBarBytes,
    .shared_bytes = kSharedBytes,
    .memory_bytes = 0,
    .source_routed = true,
    .link = {.rate = 3.2e9, .delay_ns = 25, .head = 18, .buffers = 2, .channels = true},
    .bus = {.burst_rate = 264e6,
            .dma_read_rate = 400e6,
            .dma_write_rate = 400e6,
            .dma_setup_ns = 150},
    .crossbar = {.latency_ns = 35, .ports = 8},
    .make = make_model,
    .make_switches = make_switches,
};

}  // namespace torii::nic::qsnet
