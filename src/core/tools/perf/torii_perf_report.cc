// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/perf/torii_perf_report.h"

#include <cstdio>

#include "core/torii.h"

namespace torii::perf {

namespace {

using ull = unsigned long long;

const char* unit_of(Test test) {
  switch (test) {
    case Test::bandwidth:
    case Test::bidirectional:
    case Test::get_bandwidth:
    case Test::read_bandwidth:
    case Test::write_bandwidth:
      return "MB/s";
    case Test::rate:
      return "messages/s";
    case Test::atomic_rate:
      return "operations/s";
    default:
      return "us";
  }
}

const char* heading_of(Test test) {
  switch (test) {
    case Test::latency:
      return "latency: one way, half a round trip";
    case Test::bandwidth:
      return "bandwidth: windows of messages one way, each window answered (MB = 10^6 bytes)";
    case Test::bidirectional:
      return "bidirectional bandwidth: windows of messages both ways, summed (MB = 10^6 bytes)";
    case Test::rate:
      return "message rate: windows of messages one way, each window answered";
    case Test::posted:
      return "posted queue: one-way latency when the matching entry is the last of the queue";
    case Test::unexpected:
      return "unexpected queue: one-way latency when other unexpected messages are waiting";
    case Test::late:
      return "late receives: one-way latency when the receive is posted after the message has come";
    case Test::get_latency:
      return "get latency: from the call to the reply";
    case Test::get_bandwidth:
      return "get bandwidth: windows of gets (MB = 10^6 bytes)";
    case Test::exporting:
      return "export: made, and ended again";
    case Test::importing:
      return "import: made of a key, and dropped again";
    case Test::read_latency:
      return "read latency: from the call to the bytes";
    case Test::read_bandwidth:
      return "read bandwidth: windows of reads (MB = 10^6 bytes)";
    case Test::write_latency:
      return "write latency: from the call until it is complete at the target";
    case Test::write_bandwidth:
      return "write bandwidth: windows of writes, each flushed (MB = 10^6 bytes)";
    case Test::atomic_latency:
      return "atomic latency: fetch and add, from the call to the old value";
    case Test::atomic_rate:
      return "atomic rate: windows of adds, each flushed";
    case Test::barrier:
      return "barrier of all processes: one of many in a row, at the slowest";
    case Test::bcast:
      return "bcast: one of many in a row, each from another root, at the slowest";
    case Test::reduce:
      return "reduce: sums of doubles, one of many in a row, each to another root, at the slowest";
    case Test::allreduce:
      return "allreduce: sums of doubles, one of many in a row, at the slowest";
    case Test::allgather:
      return "allgather: one of many in a row, bytes of each process, at the slowest";
    case Test::alltoall:
      return "alltoall: one of many in a row, bytes of each pair, at the slowest";
  }
  return "";
}

bool of_queue(Test test) { return test == Test::posted || test == Test::unexpected; }
bool of_rate(Test test) { return unit_of(test)[0] != 'u'; }
bool of_bandwidth(Test test) { return unit_of(test)[0] == 'M'; }

// The figure for a time, in the unit of the test.
double value_of(const Figure& f, double ns) {
  if (!of_rate(f.test)) return ns / 1e3;
  const double messages = f.pairs * f.directions * 1e9 / ns;
  return of_bandwidth(f.test) ? messages * double(f.bytes) / 1e6 : messages;
}

double median(const Figure& f) {
  const size_t n = f.ns.size();
  return n % 2 ? f.ns[n / 2] : (f.ns[n / 2 - 1] + f.ns[n / 2]) / 2;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out + "\"";
}

}  // namespace

void Report::begin(uint32_t processes, const std::string& launcher, const std::string& host,
                   const std::string& path, uint32_t repetitions) {
  if (!show_) return;
  if (format_ == Format::json) {
    printf(
        "{\"torii\": %s, \"processes\": %u, \"launcher\": %s, \"host\": %s, \"path\": %s, "
        "\"repetitions\": %u,\n\"figures\": [",
        quoted(torii_version()).c_str(), processes, quoted(launcher).c_str(), quoted(host).c_str(),
        quoted(path).c_str(), repetitions);
    return;
  }
  printf("# torii-perf %s: %u processes (%s), rank 0 on %s\n", torii_version(), processes,
         launcher.c_str(), host.c_str());
  printf("# path: %s\n", path.c_str());
  printf("# every figure: median and best of %u repetitions\n", repetitions);
  if (format_ == Format::csv) printf("level,test,kind,depth,bytes,median,best,unit\n");
}

void Report::table_row(const Figure& f) {
  const bool remote = f.level == Level::memory, whole = of_rate(f.test) && !of_bandwidth(f.test);
  const int width = whole ? 18 : 14;
  const std::string unit = std::string(" ") + unit_of(f.test);
  if (first_ || f.level != last_level_ || f.test != last_test_) {
    printf("\n%s level, %s\n", level_name(f.level), heading_of(f.test));
    if (of_queue(f.test)) {
      printf("%12s %10s %12s %12s %14s\n", "kind", "entries", "median us", "best us",
             "x of 1 entry");
    } else {
      if (remote) printf("%10s ", "memory");
      printf("%10s %*s %*s\n", "bytes", width, ("median" + unit).c_str(), width,
             ("best" + unit).c_str());
    }
  }
  const double typical = value_of(f, median(f)), best = value_of(f, f.ns.front());
  if (of_queue(f.test)) {
    if (f.depth == 1) shortest_queue_ns_ = median(f);
    printf("%12s %10u %12.3f %12.3f %14.2f\n", f.kind, f.depth, typical, best,
           median(f) / shortest_queue_ns_);
    return;
  }
  if (remote) printf("%10s ", f.kind);
  printf("%10llu %*.*f %*.*f\n", ull(f.bytes), width, whole ? 0 : 3, typical, width, whole ? 0 : 3,
         best);
}

void Report::add(const Figure& f) {
  if (!show_) return;
  const double typical = value_of(f, median(f)), best = value_of(f, f.ns.front());
  if (format_ == Format::table) {
    table_row(f);
  } else if (format_ == Format::csv) {
    printf("%s,%s,%s,%u,%llu,%.6g,%.6g,%s\n", level_name(f.level), test_name(f.test), f.kind,
           f.depth, ull(f.bytes), typical, best, unit_of(f.test));
  } else {
    printf(
        "%s\n{\"level\": \"%s\", \"test\": \"%s\", \"kind\": \"%s\", \"depth\": %u, "
        "\"bytes\": %llu, \"median\": %.6g, \"best\": %.6g, \"unit\": \"%s\"}",
        first_ ? "" : ",", level_name(f.level), test_name(f.test), f.kind, f.depth, ull(f.bytes),
        typical, best, unit_of(f.test));
  }
  fflush(stdout);
  first_ = false;
  last_level_ = f.level;
  last_test_ = f.test;
}

void Report::end() {
  if (show_ && format_ == Format::json) printf("\n]}\n");
  if (show_) fflush(stdout);
}

}  // namespace torii::perf
