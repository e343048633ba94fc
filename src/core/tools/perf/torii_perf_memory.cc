// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/perf/torii_perf_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/tools/perf/torii_perf_job.h"
#include "core/tools/perf/torii_perf_run.h"
#include "core/torii.h"

namespace torii::perf {

namespace {

constexpr unsigned kAccess = TORII_MAY_READ | TORII_MAY_WRITE | TORII_MAY_UPDATE;
constexpr uint64_t kTag = 0x706572666d656d;
constexpr unsigned kWidth = 8;                 // of an atomic operation
constexpr double kRepetitionNs = 20e6;         // most of a repetition, unless one window is longer
constexpr uint64_t kUnderWayBytes = 16 << 20;  // of a window, if it has
constexpr uint32_t kUnderWay = 4;              // more operations than this

// Memory of this process, its export, and the partner's.
class Pair {
 public:
  Pair(Job& job, uint64_t bytes, bool allocated);
  ~Pair();
  Pair(const Pair&) = delete;

  // `rounds` times the test's call, or window of calls, each until its end.
  void run(Test test, uint32_t rounds, uint32_t window, uint64_t bytes);

 private:
  struct Key {
    uint64_t bytes;
    std::byte text[TORII_KEY_MAX];
  };

  static void count(void* self, const torii_result_t* result) {
    if (result->code != TORII_OK) die("an operation failed: %s", torii_code_text(result->code));
    ++static_cast<Pair*>(self)->done_;
  }
  void begun(int code) {
    if (code < 0) die("an operation failed: %s", torii_code_text(code));
    begun_ += code == TORII_PENDING;
  }
  void finish() {
    while (done_ != begun_) job_.idle();
    job_.busy();
  }
  void flush() {
    begun(torii_flush(job_.handle(), peer_, count, this));
    finish();
  }
  void one(Test test, uint64_t bytes);

  Job& job_;
  const bool allocated_;
  torii_peer_t* const peer_;
  std::byte* memory_ = nullptr;
  std::byte* local_ = nullptr;
  torii_export_t* export_ = nullptr;
  torii_import_t* import_ = nullptr;
  Key theirs_{};
  uint64_t begun_ = 0;
  uint64_t done_ = 0;
};

Pair::Pair(Job& job, uint64_t bytes, bool allocated)
    : job_(job), allocated_(allocated), peer_(job.peer(job.partner())) {
  void* memory = nullptr;
  if (allocated) {
    if (torii_memory_alloc(job.handle(), bytes, kPage, &memory) != TORII_OK)
      die("%s", torii_error());
  } else {
    memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  }
  memory_ = static_cast<std::byte*>(memory);
  local_ = static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
  if (!memory_ || !local_) die("no memory for %llu bytes", static_cast<unsigned long long>(bytes));
  std::memset(memory_, 0, bytes);
  std::memset(local_, 0x5a, bytes);
  if (torii_export(job.handle(), memory_, bytes, kAccess, kTag, &export_) != TORII_OK)
    die("%s", torii_error());
  Key mine{};
  mine.bytes = torii_export_key(export_, mine.text, sizeof(mine.text));
  job.exchange(&mine, &theirs_, sizeof(mine));
  if (theirs_.bytes > sizeof(theirs_.text) ||
      torii_import(job.handle(), peer_, theirs_.text, theirs_.bytes, kTag, &import_) != TORII_OK)
    die("%s", torii_error());
}

// After a barrier: nobody uses the memory.
Pair::~Pair() {
  torii_import_drop(import_);
  begun(torii_unexport(export_, count, this));
  finish();
  if (allocated_) {
    torii_memory_free(job_.handle(), memory_);
  } else {
    std::free(memory_);
  }
  std::free(local_);
}

void Pair::one(Test test, uint64_t bytes) {
  torii_export_t* exported = nullptr;
  torii_import_t* import = nullptr;
  switch (test) {
    case Test::exporting:
      begun(torii_export(job_.handle(), memory_, bytes, kAccess, kTag, &exported));
      return begun(torii_unexport(exported, count, this));
    case Test::importing:
      begun(torii_import(job_.handle(), peer_, theirs_.text, theirs_.bytes, kTag, &import));
      return begun(torii_import_drop(import));
    case Test::read_latency:
    case Test::read_bandwidth:
      if (torii_read_now(import_, 0, local_, bytes) == TORII_OK) return;
      return begun(torii_read(import_, 0, local_, bytes, count, this));
    case Test::write_latency:
      if (torii_write_now(import_, 0, local_, bytes) == TORII_OK) return;
      return begun(torii_write(import_, 0, local_, bytes, TORII_COMPLETE_REMOTE, count, this));
    case Test::write_bandwidth:
      return begun(torii_write(import_, 0, local_, bytes, TORII_COMPLETE_LOCAL, count, this));
    case Test::atomic_latency:
      return begun(torii_atomic(import_, 0, TORII_ATOMIC_ADD, kWidth, 1, 0, local_, count, this));
    case Test::atomic_rate:
      return begun(torii_atomic(import_, 0, TORII_ATOMIC_ADD, kWidth, 1, 0, nullptr, count, this));
    default:
      die("%s is no test of remote memory", test_name(test));
  }
}

void Pair::run(Test test, uint32_t rounds, uint32_t window, uint64_t bytes) {
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint32_t i = 0; i < window; ++i) one(test, bytes);
    finish();
    if (windowed(test)) flush();
  }
}

double repetition(Job& job, Pair& pair, Test test, const Amount& amount, uint64_t bytes) {
  job.barrier();
  const uint64_t start = now_ns();
  if (job.leads()) pair.run(test, amount.rounds, amount.window, bytes);
  const double each = double(now_ns() - start) / amount.rounds / amount.window;
  return job.slowest(job.leads() ? each : 0);
}

std::vector<uint64_t> sizes_of(const Options& options, Test test) {
  if (test == Test::atomic_latency || test == Test::atomic_rate) return {kWidth};
  if (test == Test::exporting || test == Test::importing)
    return {std::max<uint64_t>(options.max_bytes, 1)};
  std::vector<uint64_t> sizes = options.sizes();
  std::erase(sizes, 0);
  return sizes;
}

}  // namespace

void run_memory_test(Job& job, const Options& options, Figure figure, Report& report) {
  for (const bool allocated : {true, false}) {
    figure.kind = allocated ? "allocated" : "ordinary";
    job.barrier();
    {
      Pair pair(job, std::max<uint64_t>(options.max_bytes, kWidth), allocated);
      for (const uint64_t bytes : sizes_of(options, figure.test)) {
        Amount amount(options, figure.test, bytes);
        const bool fit = options.iterations == 0;  // else the user has said how many
        if (fit && amount.window > kUnderWay)
          amount.window = std::max(
              kUnderWay, uint32_t(std::min<uint64_t>(amount.window, kUnderWayBytes / bytes)));
        Figure f = figure;
        f.bytes = bytes;
        f.pairs = job.pairs();
        const double each = repetition(job, pair, f.test, amount, bytes);  // to warm up
        if (fit)
          amount.rounds = uint32_t(
              std::clamp(kRepetitionNs / (each * amount.window), 1.0, double(amount.rounds)));
        for (uint32_t i = 0; i < options.repetitions; ++i)
          f.ns.push_back(repetition(job, pair, f.test, amount, bytes));
        std::sort(f.ns.begin(), f.ns.end());
        report.add(f);
      }
      job.barrier();
    }
  }
}

}  // namespace torii::perf
