// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The tests of torii-perf for the collective operations of groups.
#pragma once

#include "core/tools/perf/torii_perf_options.h"
#include "core/tools/perf/torii_perf_report.h"

namespace torii::perf {

class Job;

// As run_test(), for Level::collective: of a group of all processes. Sizes that are not served have
// no figure.
void run_collective_test(Job& job, const Options& options, Figure figure, Report& report);

}  // namespace torii::perf
