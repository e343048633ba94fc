// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/perf/torii_perf_options.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "core/base/log.h"

namespace torii::perf {

namespace {

constexpr uint64_t kBytesMax = 1u << 30;

constexpr const char* kLevelNames[] = {"tagged", "portals", "memory", "collective"};
constexpr const char* kTestNames[] = {
    "latency",        "bandwidth",    "bidirectional",  "rate",          "posted",
    "unexpected",     "late",         "get-latency",    "get-bandwidth", "export",
    "import",         "read-latency", "read-bandwidth", "write-latency", "write-bandwidth",
    "atomic-latency", "atomic-rate",  "barrier",        "bcast",         "reduce",
    "allreduce",      "allgather",    "alltoall"};

// A decimal number, with k, m or g for multiples of 1024 if `suffixes`.
bool parse_amount(std::string_view text, bool suffixes, uint64_t min, uint64_t max, uint64_t* out) {
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view rest = text.substr(size_t(stop - text.data()));
  if (error != std::errc()) return false;
  unsigned shift = 0;
  if (suffixes && rest.size() == 1) {
    const size_t at = std::string_view("kmg").find(char(rest[0] | 0x20));
    if (at == std::string_view::npos) return false;
    shift = unsigned(at + 1) * 10;
    rest = {};
  }
  if (!rest.empty() || value > (max >> shift)) return false;
  *out = value << shift;
  return *out >= min;
}

template <typename Name, size_t N>
bool parse_list(const char* option, std::string_view text, const char* const (&names)[N],
                std::vector<Name>* out, std::string* why) {
  out->clear();
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view word = text.substr(at, comma - at);
    at = comma + 1;
    std::string all;
    bool known = word == "all";
    for (size_t i = 0; i < N; ++i) {
      all += std::string(i ? ", " : "") + names[i];
      if (word != "all" && word != names[i]) continue;
      known = true;
      if (std::find(out->begin(), out->end(), Name(i)) == out->end()) out->push_back(Name(i));
    }
    if (known) continue;
    *why = format_text("%s %.*s: unknown name; the names are %s and all", option, int(word.size()),
                       word.data(), all.c_str());
    return false;
  }
  return true;
}

struct NumberOption {
  const char* name;
  bool bytes;
  uint64_t min;
  uint64_t max;
  uint64_t* wide;
  uint32_t* narrow;
};

bool parse_number_option(const NumberOption& o, const char* text, std::string* why) {
  uint64_t value = 0;
  if (!parse_amount(text, o.bytes, o.min, o.max, &value)) {
    *why =
        format_text("%s %s: expected %s from %llu to %llu%s", o.name, text,
                    o.bytes ? "bytes" : "an integer", static_cast<unsigned long long>(o.min),
                    static_cast<unsigned long long>(o.max), o.bytes ? ", or with k, m or g" : "");
    return false;
  }
  if (o.wide) *o.wide = value;
  if (o.narrow) *o.narrow = uint32_t(value);
  return true;
}

}  // namespace

const char kUsage[] =
    "usage: torii-perf [options]\n"
    "       mpirun -np N torii-perf [options]\n"
    "       mpiexec -n N torii-perf [options]\n"
    "       TORII_SIZE=N TORII_RANK=0..N-1 torii-perf [options]   once for every process\n"
    "Measures Torii between pairs of processes: rank i with rank i + N/2, all pairs at once. "
    "Times\n"
    "are those of the slowest pair, rates the sum of all pairs. Without a launcher it starts two\n"
    "processes itself, each on a core of its own if there are enough.\n"
    "  --fork N          start N processes on this machine (even, 2 to 512; at level memory also\n"
    "                    1, which is its own partner)\n"
    "  --level LIST      tagged (tagged ports of torii.h; the default), portals (portals3.h),\n"
    "                    memory (remote memory of torii.h), collective (groups of torii.h, of all\n"
    "                    processes), all\n"
    "  --test LIST       latency, bandwidth, bidirectional, rate, posted, unexpected, late and,\n"
    "                    at level portals, get-latency, get-bandwidth; at level memory export,\n"
    "                    import, read-latency, read-bandwidth, write-latency, write-bandwidth,\n"
    "                    atomic-latency, atomic-rate; at level collective barrier, bcast, reduce,\n"
    "                    allreduce, allgather, alltoall; or all (the default)\n"
    "  --min BYTES       smallest message (0); k, m, g multiply by 1024\n"
    "  --max BYTES       largest message (4m); sizes are 0 and the powers of two between\n"
    "  --depth N         longest queue of posted and unexpected entries (100000)\n"
    "  --window N        messages under way at once in bandwidth and rate (64)\n"
    "  --iterations N    messages, or windows, in one repetition (by message size)\n"
    "  --repetitions N   measurements of each figure, after one to warm up (11)\n"
    "  --csv, --json     for programs\n"
    "  --version, --help\n"
    "Exit status: 0; 1 if something failed; 2 for a wrong option.\n";

const char* level_name(Level level) { return kLevelNames[size_t(level)]; }
const char* test_name(Test test) { return kTestNames[size_t(test)]; }

bool test_exists(Test test, Level level) {
  if (test >= Test::barrier) return level == Level::collective;
  if (test >= Test::exporting) return level == Level::memory;
  if (test == Test::get_latency || test == Test::get_bandwidth) return level == Level::portals;
  return level == Level::tagged || level == Level::portals;
}

std::vector<uint64_t> Options::sizes() const {
  std::vector<uint64_t> out;
  if (min_bytes == 0) out.push_back(0);
  for (uint64_t bytes = 1; bytes < max_bytes; bytes *= 2) {
    if (bytes > min_bytes && out.empty()) out.push_back(min_bytes);
    if (bytes >= min_bytes) out.push_back(bytes);
  }
  if (out.empty() && min_bytes < max_bytes) out.push_back(min_bytes);
  if (out.empty() || out.back() != max_bytes) out.push_back(max_bytes);
  return out;
}

std::vector<uint32_t> Options::depths() const {
  std::vector<uint32_t> out;
  for (uint64_t depth = 1; depth < depth_max; depth *= 10) out.push_back(uint32_t(depth));
  out.push_back(depth_max);
  return out;
}

// Do the options go together? `named`: the user chose the tests.
static bool consistent(const Options& o, bool named, std::string* why) {
  if (o.min_bytes > o.max_bytes) {
    *why =
        format_text("--min %llu is above --max %llu", static_cast<unsigned long long>(o.min_bytes),
                    static_cast<unsigned long long>(o.max_bytes));
    return false;
  }
  if (o.fork == 1 && !o.alone()) {
    *why = "--fork 1: one process alone measures remote memory only; add --level memory";
    return false;
  }
  if (o.fork > 1 && o.fork % 2 != 0) {
    *why =
        format_text("--fork %u: processes are measured in pairs, the number must be even", o.fork);
    return false;
  }
  for (Test test : o.tests) {
    if (!named || std::any_of(o.levels.begin(), o.levels.end(),
                              [&](Level level) { return test_exists(test, level); }))
      continue;
    Level level = Level::tagged;
    while (!test_exists(test, level)) level = Level(unsigned(level) + 1);
    *why = format_text("--test %s does not exist at these levels; add --level %s", test_name(test),
                       level_name(level));
    return false;
  }
  return true;
}

bool parse_options(int argc, const char* const* argv, Options* o, std::string* why) {
  o->levels = {Level::tagged};
  if (!parse_list("--test", "all", kTestNames, &o->tests, why)) return false;
  const NumberOption numbers[] = {
      {"--min", true, 0, kBytesMax, &o->min_bytes, nullptr},
      {"--max", true, 0, kBytesMax, &o->max_bytes, nullptr},
      {"--depth", false, 1, 1000000, nullptr, &o->depth_max},
      {"--window", false, 1, 1024, nullptr, &o->window},
      {"--iterations", false, 1, 100000000, nullptr, &o->iterations},
      {"--repetitions", false, 1, 100000, nullptr, &o->repetitions},
      {"--fork", false, 1, 512, nullptr, &o->fork},
  };
  bool named = false, csv = false, json = false;
  const struct {
    const char* name;
    bool* flag;
  } flags[] = {
      {"--help", &o->help}, {"--version", &o->version}, {"--csv", &csv}, {"--json", &json}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const auto flag =
        std::find_if(std::begin(flags), std::end(flags), [&](auto& f) { return name == f.name; });
    if (flag != std::end(flags)) {
      *flag->flag = true;
      continue;
    }
    const auto number = std::find_if(std::begin(numbers), std::end(numbers),
                                     [&](auto& n) { return name == n.name; });
    if (number == std::end(numbers) && name != "--level" && name != "--test") {
      *why = format_text("unknown option %s; torii-perf --help lists the options", argv[i]);
      return false;
    }
    if (++i == argc) {
      *why = format_text("%s needs a value", argv[i - 1]);
      return false;
    }
    bool good;
    if (number != std::end(numbers)) {
      good = parse_number_option(*number, argv[i], why);
    } else if (name == "--level") {
      good = parse_list("--level", argv[i], kLevelNames, &o->levels, why);
    } else {
      good = parse_list("--test", argv[i], kTestNames, &o->tests, why);
      named = std::strcmp(argv[i], "all") != 0;
    }
    if (!good) return false;
  }
  if (csv && json) {
    *why = "--csv and --json exclude each other";
    return false;
  }
  o->format = csv ? Format::csv : json ? Format::json : Format::table;
  return consistent(*o, named, why);
}

}  // namespace torii::perf
