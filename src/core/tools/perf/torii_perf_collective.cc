// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/perf/torii_perf_collective.h"

#include <algorithm>
#include <vector>

#include "core/tools/perf/torii_perf_job.h"
#include "core/tools/perf/torii_perf_run.h"
#include "core/torii.h"

namespace torii::perf {

namespace {

constexpr uint32_t kOperationsMost = 2000;  // of a repetition, unless the user says how many
constexpr double kOperationsNs = 20e6;      // most of a repetition, unless one takes longer
constexpr uint32_t kTrials = 4;             // to find out how long one takes
constexpr uint64_t kMemoryMost = uint64_t{1} << 30;  // of a process, for all parts together

void add_doubles(void*, const void* in, void* inout, uint64_t bytes) {
  const auto* const from = static_cast<const double*>(in);
  auto* const to = static_cast<double*>(inout);
  for (uint64_t i = 0; i < bytes / sizeof(double); ++i) to[i] += from[i];
}
constexpr torii_reduction_t kSum = {add_doubles, nullptr, sizeof(double)};

bool reduces(Test test) { return test == Test::reduce || test == Test::allreduce; }

class Everybody {
 public:
  Everybody(Job& job, Test test, uint64_t bytes)
      : job_(job), test_(test), in_(bytes * job.size()), out_(bytes * job.size()) {
    std::vector<torii_peer_t*> peers;
    for (uint32_t i = 0; i < job.size(); ++i) peers.push_back(job.peer(i));
    if (torii_group_open(job.handle(), "perf", 4, peers.data(), peers.size(), &group_) != TORII_OK)
      die("%s", torii_error());
    torii_flag_t flag{};
    if (finish(torii_group_prepare(group_, torii_flag, &flag), flag) != TORII_OK)
      die("collective operations are not served: %s", torii_group_collectives(group_));
  }
  // After a barrier.
  ~Everybody() { torii_group_close(group_); }
  Everybody(const Everybody&) = delete;

  // Slowest process, ns of one. 0: not served.
  double repetition(uint32_t count, uint64_t bytes) {
    job_.barrier();
    const uint64_t start = now_ns();
    for (uint32_t i = 0; i < count; ++i) {
      torii_flag_t flag{};
      const int code = finish(begin(i % job_.size(), bytes, &flag), flag);
      if (code == TORII_ERR_UNSUPPORTED) return 0;
      if (code != TORII_OK) die("%s failed: %s", test_name(test_), torii_code_text(code));
    }
    return job_.slowest(double(now_ns() - start) / count);
  }

 private:
  int begin(uint32_t root, uint64_t bytes, torii_flag_t* flag) {
    const torii_data_t data = {TORII_CONTIGUOUS, 0, bytes, in_.data(), nullptr, nullptr, nullptr};
    switch (test_) {
      case Test::barrier:
        return torii_group_barrier(group_, torii_flag, flag);
      case Test::bcast:
        return torii_group_bcast(group_, root, &data, torii_flag, flag);
      case Test::reduce:
        return torii_group_reduce(group_, root, in_.data(), out_.data(), bytes, &kSum, torii_flag,
                                  flag);
      case Test::allreduce:
        return torii_group_allreduce(group_, in_.data(), out_.data(), bytes, &kSum, torii_flag,
                                     flag);
      case Test::allgather:
        return torii_group_allgather(group_, in_.data(), out_.data(), bytes, torii_flag, flag);
      case Test::alltoall:
        return torii_group_alltoall(group_, in_.data(), out_.data(), bytes, torii_flag, flag);
      default:
        die("%s is no collective operation", test_name(test_));
    }
  }
  int finish(int code, const torii_flag_t& flag) {
    if (code != TORII_PENDING) return code;
    while (!flag.done) torii_wait_step(job_.handle());
    return flag.result.code;
  }

  Job& job_;
  const Test test_;
  std::vector<char> in_, out_;
  torii_group_t* group_ = nullptr;
};

std::vector<uint64_t> collective_sizes(const Job& job, const Options& options, Test test) {
  if (test == Test::barrier) return {0};
  std::vector<uint64_t> sizes = options.sizes();
  std::erase_if(sizes, [&](uint64_t bytes) {
    return bytes == 0 || bytes * job.size() > kMemoryMost || (reduces(test) && bytes % 8 != 0);
  });
  return sizes;
}

}  // namespace

void run_collective_test(Job& job, const Options& options, Figure figure, Report& report) {
  const std::vector<uint64_t> sizes = collective_sizes(job, options, figure.test);
  if (sizes.empty()) return;
  job.barrier();
  {
    Everybody group(job, figure.test, sizes.back());
    for (const uint64_t bytes : sizes) {
      Figure f = figure;
      f.bytes = bytes;
      const double each = group.repetition(kTrials, bytes);
      if (each == 0) continue;
      uint32_t count = options.iterations;
      if (count == 0)
        count = uint32_t(std::clamp(kOperationsNs / each, 4.0, double(kOperationsMost)));
      for (uint32_t i = 0; i < options.repetitions; ++i)
        f.ns.push_back(group.repetition(count, bytes));
      std::sort(f.ns.begin(), f.ns.end());
      report.add(f);
    }
    job.barrier();
  }
  job.barrier();
}

}  // namespace torii::perf
