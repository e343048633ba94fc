// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// torii-perf: how fast Torii is here.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "config.h"
#include "core/tools/perf/torii_perf_job.h"
#include "core/tools/perf/torii_perf_options.h"
#include "core/tools/perf/torii_perf_report.h"
#include "core/tools/perf/torii_perf_tests.h"

using namespace torii::perf;

namespace {

constexpr uint32_t kProcesses = 2;  // when nobody says how many

void measure(const Options& options) {
  Job job(options.alone());
  Report report(options.format, job.rank() == 0);
  const std::string path = torii_peer_text(job.handle(), job.peer(job.partner()));
  report.begin(job.size(), job.launcher(), job.host(), path, options.repetitions);
  for (Level level : options.levels)
    for (Test test : options.tests)
      if (test_exists(test, level)) run_test(job, options, level, test, report);
  report.end();
  job.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string why;
  if (!parse_options(argc, argv, &options, &why)) {
    fprintf(stderr, "torii-perf: %s\n", why.c_str());
    return 2;
  }
  if (options.help || options.version) {
    if (options.help) fputs(kUsage, stdout);
    if (options.version) printf("torii-perf %s\n", PACKAGE_VERSION);
    return 0;
  }
  if (torii::launched() && options.fork > 0) {
    fprintf(stderr,
            "torii-perf: --fork %u: this process was started by a launcher (PMIX_NAMESPACE, PMI_FD,"
            " PMI_PORT, TORII_RANK, TORII_SIZE, or the size of a job of several processes is set), "
            "which says how many there are\n",
            options.fork);
    return 2;
  }
  std::vector<int> children;
  if (!torii::launched()) fork_processes(options.fork ? options.fork : kProcesses, &children);
  measure(options);
  return reap(children) == 0 ? 0 : 1;
}
