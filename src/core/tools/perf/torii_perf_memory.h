// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The tests of torii-perf for remote memory.
#pragma once

#include "core/tools/perf/torii_perf_options.h"
#include "core/tools/perf/torii_perf_report.h"

namespace torii::perf {

class Job;

// As run_test(), for Level::memory: on memory of torii_memory_alloc and on ordinary memory. The
// second of each pair owns the memory, and makes progress only.
void run_memory_test(Job& job, const Options& options, Figure figure, Report& report);

}  // namespace torii::perf
