// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// torii-tune: measures where the ways of moving data should take turns on this machine, and writes
// it down for the library.
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "config.h"
#include "core/base/hardware.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/processors.h"
#include "core/tools/cores.h"
#include "core/tools/tune/tune_choice.h"
#include "core/tools/tune/tune_output.h"
#include "core/tools/tune/tune_rounds.h"
#include "drivers/shm/switch_points.h"

using namespace torii;
using namespace torii::tune;
using perf::Job;
using perf::Test;

namespace {

constexpr char kUsage[] =
    "usage: torii-tune [options]\n"
    "Measures, between two processes that it starts on this machine, from which size on each way "
    "of\n"
    "moving a message pays, and writes the result into a file that every process reads when it\n"
    "starts (torii-info --params shows it). Takes half a minute; the machine should be idle.\n"
    "  --output FILE  write this file (the one that TORII_TUNE_FILE names, or\n"
    "                 $XDG_CONFIG_HOME/torii/tune.conf, or ~/.config/torii/tune.conf)\n"
    "  --system       write the file for all users of this machine\n"
    "  --dry-run      write nothing\n"
    "  --quick        a few seconds, less exact\n"
    "  --details      show what was measured of every candidate, too\n"
    "  --version, --help\n"
    "Exit status: 0; 1 if something failed; 2 for a wrong option.\n";

// Gains of less than this, as mean over all figures, are none.
constexpr double kIndifference = 0.005;
constexpr double kRingIndifference = 0.02;  // a larger ring costs memory

constexpr uint64_t kRemoteMost = 1 << 20;
constexpr uint64_t kEagerMost = 512 << 10;  // each may have to be kept until it is received
constexpr uint64_t kAnnounceFrom = 1 << 10;
constexpr uint64_t kNothing = 1;  // as a least size: all
constexpr Test kFigures[] = {Test::latency, Test::bandwidth, Test::bidirectional, Test::late};

struct Options {
  std::string output;
  bool system = false, dry_run = false, quick = false, details = false;
};

// The state that all steps share.
struct Session {
  Options options;
  Job* job = nullptr;
  bool speaks = false;  // this is the process that prints
  shm::SwitchPoints now{};
};

double seconds(const Session& s, double usual) { return s.options.quick ? usual / 5 : usual; }

std::vector<Cell> cells_of(const std::vector<uint64_t>& sizes, const std::vector<Test>& tests) {
  std::vector<Cell> cells;
  for (const uint64_t bytes : sizes)
    for (const Test test : tests) cells.push_back({test, bytes});
  return cells;
}

// The powers of two from `least` to `most`, and up to `halves` what lies in the middle of two.
std::vector<uint64_t> sizes_between(uint64_t least, uint64_t most, uint64_t halves) {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = least; bytes <= most; bytes *= 2) {
    sizes.push_back(bytes);
    if (bytes < halves) sizes.push_back(bytes + bytes / 2);
  }
  return sizes;
}

// Both processes go on with what the first has found.
uint64_t agree(const Session& s, uint64_t value) {
  return uint64_t(s.job->slowest(s.job->rank() == 0 ? double(value) : 0));
}

void tell_rounds(const Session& s, const char* what, const Measured& measured) {
  if (!s.speaks) return;
  printf("%s: %zu rounds", what, measured.rounds);
  if (measured.discarded > 0)
    printf(", and %zu discarded in which the machine was disturbed", measured.discarded);
  if (measured.noisy) printf("; most were disturbed, so all count: try again on an idle machine");
  printf("\n");
  fflush(stdout);
}

Values values_of(const Switches& switches, uint64_t ring) {
  return {{"shm_eager_limit", switches.eager_limit},
          {"shm_remote_min", switches.remote_min},
          {"shm_split_min", switches.split_min},
          {"shm_ring_most", ring}};
}

// Every candidate's time by size and figure, as a multiple of the reference's.
void show_details(const Session& s, const Measured& measured, const std::vector<std::string>& names,
                  size_t reference) {
  if (!s.options.details || !s.speaks) return;
  Table table;
  table.name = "times, relative to " + names[reference] + "'s";
  table.columns = {"bytes", "figure"};
  const size_t count = measured.ns.size();
  table.columns.insert(table.columns.end(), names.begin(), names.begin() + ptrdiff_t(count));
  for (size_t k = 0; k < measured.cells.size(); ++k) {
    std::vector<std::string> row = {size_text(measured.cells[k].bytes),
                                    perf::test_name(measured.cells[k].test)};
    for (size_t c = 0; c < count; ++c)
      row.push_back(measured.has(c, k)
                        ? format_text("%.2f", std::exp(measured.log_ratio(c, reference, k)))
                        : "-");
    table.rows.push_back(std::move(row));
  }
  printf("%s\n", text_of(table).c_str());
}

uint64_t tune_ring(const Session& s) {
  const std::vector<uint64_t> rings = {256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20};
  std::vector<Configuration> configurations;
  for (const uint64_t ring : rings)
    configurations.push_back({values_of({kEagerMost, kNever, kNever}, ring)});
  std::vector<uint64_t> sizes = sizes_between(1 << 10, 64 << 10, 0);
  sizes.insert(sizes.begin(), {8, 128});
  const Measured measured = measure(
      *s.job, configurations,
      cells_of(sizes, {Test::latency, Test::bandwidth, Test::bidirectional}), seconds(s, 12));
  tell_rounds(s, "sizes of the ring", measured);
  std::vector<double> costs;
  for (size_t c = 0; c < rings.size(); ++c) {
    double sum = 0;
    for (size_t k = 0; k < measured.cells.size(); ++k) sum += measured.bounded_log_ratio(c, 0, k);
    costs.push_back(sum / double(measured.cells.size()));
  }
  show_details(s, measured, {"256k", "512k", "1m", "2m", "4m"}, 0);
  const auto now = std::find(rings.begin(), rings.end(), s.now.ring_most);
  return agree(s, rings[choose_size(costs, size_t(now - rings.begin()), kRingIndifference)]);
}

Switches tune_switches(const Session& s, const Switches& now, uint64_t ring) {
  std::vector<Configuration> ways = {{values_of({kEagerMost, kNever, kNever}, ring), 0, kEagerMost},
                                     {values_of({kAnnounceFrom, kNever, kNever}, ring)}};
  if (hardware().attach) {
    ways.push_back({values_of({kAnnounceFrom, kNothing, kNever}, ring), 8 << 10});
    ways.push_back({values_of({kAnnounceFrom, kNothing, kNothing}, ring), 64 << 10});
  }
  const std::vector<uint64_t> sizes = sizes_between(4 << 10, 4 << 20, 256 << 10);
  const std::vector<Test> figures(std::begin(kFigures), std::end(kFigures));
  const Measured measured = measure(*s.job, ways, cells_of(sizes, figures), seconds(s, 20));
  tell_rounds(s, "ways of moving messages", measured);
  constexpr auto kReference = size_t(Way::ring);  // measured at all sizes
  show_details(s, measured, {"eager", "ring", "attach", "both"}, kReference);
  std::vector<SizeCost> costs(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    costs[i].bytes = sizes[i];
    costs[i].cost.fill(HUGE_VAL);
    for (size_t way = 0; way < ways.size(); ++way) {
      double sum = 0;
      for (size_t f = 0; f < figures.size(); ++f) {
        const size_t k = i * figures.size() + f;
        sum += measured.has(way, k) ? measured.bounded_log_ratio(way, kReference, k) : HUGE_VAL;
      }
      costs[i].cost[way] = sum / double(figures.size());
    }
  }
  const Switches best = choose_switches(costs, now, kRemoteMost, kIndifference);
  return {agree(s, best.eager_limit), agree(s, best.remote_min), agree(s, best.split_min)};
}

Table value_table(const Values& before, const Values& after) {
  Table table;
  table.name = "switch points";
  table.columns = {"parameter", "in force", "from", "measured"};
  for (size_t i = 0; i < before.size(); ++i) {
    for (size_t p = 0; p < param_count(); ++p) {
      if (strcmp(param_info(p).name, before[i].first) != 0) continue;
      const std::string origin = param_origin(p);
      table.rows.push_back({before[i].first, size_text(before[i].second),
                            origin == "default" ? "caches" : origin, size_text(after[i].second)});
    }
  }
  return table;
}

std::string measured_text(bool quick) {
  char date[32] = "";
  const time_t now = time(nullptr);
  tm parts;
  if (gmtime_r(&now, &parts)) strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &parts);
  utsname system{};
  uname(&system);
  return format_text("%s on %s, %s %s, torii-tune %s%s", date, system.nodename, system.sysname,
                     system.release, torii_version(), quick ? " --quick" : "");
}

// Prints what was found and writes it; the exit status.
int conclude(const Session& s, const Values& found) {
  if (s.options.dry_run) {
    printf("\nnothing was written (--dry-run)\n");
    return 0;
  }
  TunedMachine machine{signature_of(hardware()), measured_text(s.options.quick), {}};
  for (const auto& [name, value] : found) machine.entries.push_back({name, size_text(value), 0});
  std::string note, why;
  if (!write_machine(s.options.output, machine, &note, &why)) {
    fprintf(stderr, "torii-tune: %s\n", why.c_str());
    return 1;
  }
  if (!note.empty()) printf("\n%s", note.c_str());
  printf("\nwritten: %s\n", s.options.output.c_str());
  if (choose_tuned(params().tune_file, machine.signature).path != s.options.output)
    printf("set TORII_TUNE_FILE=%s to have it read\n", s.options.output.c_str());
  return 0;
}

// Both processes run this.
int tune_machine(Session& s) {
  Job job(false);
  s.job = &job;
  s.speaks = job.rank() == 0;
  s.now = shm::switch_points(params(), hardware(), false);
  const Switches now{s.now.eager_limit, s.now.remote_min, s.now.split_min};
  const Values before = values_of(now, s.now.ring_most);
  if (s.speaks) printf("machine: %s\n", signature_of(hardware()).c_str());
  const Table origins = value_table(before, before);
  const uint64_t ring = tune_ring(s);
  const Switches switches = tune_switches(s, now, ring);
  Values found = values_of(switches, ring);
  bool keep = switches == now && ring == s.now.ring_most;
  if (!keep) {
    std::vector<uint64_t> sizes = sizes_between(1 << 10, 4 << 20, 0);
    sizes.insert(sizes.begin(), {8, 128});
    const Measured both =
        measure(job, {{before}, {found}},
                cells_of(sizes, {std::begin(kFigures), std::end(kFigures)}), seconds(s, 14));
    tell_rounds(s, "old against new", both);
    keep = agree(s, mean_gain(both) > -kIndifference) != 0;
    if (s.speaks) printf("\n%s", text_of(gain_table(both)).c_str());
  }
  if (!s.speaks) return 0;
  Table table = value_table(before, found);
  for (size_t i = 0; i < table.rows.size(); ++i) table.rows[i][2] = origins.rows[i][2];
  printf("\n%s", text_of(table).c_str());
  if (keep) printf("\nthe values in force are as good, and stay\n");
  return conclude(s, keep ? before : found);
}

bool parse(int argc, char** argv, Options* o) {
  const struct {
    const char* name;
    bool* flag;
  } flags[] = {{"--system", &o->system},
               {"--dry-run", &o->dry_run},
               {"--quick", &o->quick},
               {"--details", &o->details}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--output") {
      if (i + 1 == argc || !argv[i + 1][0]) {
        fprintf(stderr, "torii-tune: --output needs a file\n");
        return false;
      }
      o->output = argv[++i];
    } else if (const auto flag = std::find_if(std::begin(flags), std::end(flags),
                                              [&](auto& f) { return word == f.name; });
               flag != std::end(flags)) {
      *flag->flag = true;
    } else {
      fprintf(stderr, "torii-tune: unknown option %s\n%s", argv[i], kUsage);
      return false;
    }
  }
  if (o->system && !o->output.empty()) {
    fprintf(stderr, "torii-tune: --system and --output exclude each other\n");
    return false;
  }
  return true;
}

// Settings that the user made for other runs would win over those to be measured.
void leave_aside() {
  for (const char* name :
       {"TORII_DRIVERS", "TORII_EAGER_LIMIT", "TORII_EAGER_WINDOW", "TORII_REPORT",
        "TORII_SHM_EAGER_LIMIT", "TORII_SHM_REMOTE_MIN", "TORII_SHM_REMOTE_READ", "TORII_SHM_RING",
        "TORII_SHM_RING_MOST", "TORII_SHM_SPLIT_MIN", "TORII_UNEXPECTED_MEMORY", "TORII_WAIT"}) {
    const char* value = getenv(name);
    if (!value) continue;
    fprintf(stderr, "torii-tune: %s=%s is left aside here; where it is set it wins over the file\n",
            name, value);
    unsetenv(name);
  }
}

bool find_output(Options* o, std::string* why) {
  if (o->system) o->output = system_tune_file();
  const std::string& named = params().tune_file;
  if (o->output.empty() && !named.empty() && named != "auto") o->output = named;
  if (o->output.empty()) o->output = user_tune_file();
  if (!o->output.empty()) return true;
  *why = "neither XDG_CONFIG_HOME nor HOME is set; --output names the file to write";
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && !strcmp(argv[1], "--help")) return fputs(kUsage, stdout) < 0;
  if (argc == 2 && !strcmp(argv[1], "--version"))
    return printf("torii-tune %s\n", PACKAGE_VERSION) < 0;
  Session session;
  if (!parse(argc, argv, &session.options)) return 2;
  if (launched()) perf::die("it starts its processes itself: run it without a launcher");
  leave_aside();
  std::string why;
  if (!session.options.dry_run &&
      (!find_output(&session.options, &why) || !prepare_output(session.options.output, &why)))
    perf::die("%s", why.c_str());
  if (usable_cores().size() < 2 || usable_processors() < 2)
    perf::die(
        "it measures between two processors, and may use only %zu (%.3g by the control group)",
        usable_cores().size(), usable_processors());
  std::vector<int> children;
  perf::fork_processes(2, &children);
  const int status = tune_machine(session);
  return perf::reap(children) == 0 ? status : 1;
}
