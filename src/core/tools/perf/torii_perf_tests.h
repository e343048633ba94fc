// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The tests of torii-perf.
#pragma once

#include "core/tools/perf/torii_perf_options.h"
#include "core/tools/perf/torii_perf_report.h"

namespace torii::perf {

class Job;

// Runs one test over all its sizes or depths. Collective; rank 0 reports.
void run_test(Job& job, const Options& options, Level level, Test test, Report& report);

}  // namespace torii::perf
