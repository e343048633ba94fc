// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

#include "nic/model.h"
#include "nic/skeleton/regs.h"

namespace torii::nic::skeleton {

std::unique_ptr<Model> make_model(const Board& board);

inline constexpr CardKind kKind = {
    .name = "skeleton",
    .doc = "a doorbell, two rings and a DMA channel; to copy",
    .contexts = 1,
    .bar_bytes = kBarBytes,
    .shared_bytes = sizeof(Shared),
    .memory_bytes = 0,
    .source_routed = false,
    .link = {.window = 8},
    .bus = {},
    .crossbar = {.ports = 32},
    .make = make_model,
};

}  // namespace torii::nic::skeleton
