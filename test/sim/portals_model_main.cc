// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Random traffic with faults, compared with the naive Portals of portals_model.h, and proof that
// the comparison finds mistakes. Everything follows from the seed.
//   portals_model                       the mutations, and the seeds of `make check`
//   portals_model --seeds 1-100000      more
//   portals_model --seed 42 --verbose   one, with all calls
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sanitized.h"
#include "sim/portals_model_traffic.h"

namespace torii::model {

namespace {

const uint64_t kSeeds = test::in_short() ? 100 : 1000;  // of `make check`
constexpr uint64_t kMutationSeeds = 50;                 // within which a mistake must be found

int compare(uint64_t first, uint64_t last, bool verbose) {
  Totals totals;
  for (uint64_t seed = first; seed <= last; ++seed) {
    const std::string difference = run_seed(seed, Mutation::none, verbose, &totals);
    if (difference.empty()) continue;
    std::printf("seed %llu: %s\nrepeat it with --seed %llu --verbose\n",
                static_cast<unsigned long long>(seed), difference.c_str(),
                static_cast<unsigned long long>(seed));
    return 1;
  }
  std::printf(
      "seeds %llu to %llu: %llu calls, %llu requests accepted (%llu after being held), "
      "%llu events, %.1f %% of the memory known at rest\n",
      static_cast<unsigned long long>(first), static_cast<unsigned long long>(last),
      static_cast<unsigned long long>(totals.calls),
      static_cast<unsigned long long>(totals.accepted),
      static_cast<unsigned long long>(totals.held), static_cast<unsigned long long>(totals.events),
      100.0 * double(totals.known_bytes) / double(totals.compared_bytes));
  return 0;
}

// A model with a mistake must differ from the library soon.
int find_mutations(bool verbose) {
  int missed = 0;
  for (unsigned m = 1; m < unsigned(Mutation::kCount); ++m) {
    const auto mutation = Mutation(m);
    uint64_t seed = 0;
    std::string difference;
    Totals totals;
    while (difference.empty() && seed < kMutationSeeds)
      difference = run_seed(++seed, mutation, false, &totals);
    if (!difference.empty() && !verbose) continue;
    std::printf("mutation '%s': %s at seed %llu%s%s\n", name_of(mutation),
                difference.empty() ? "NOT found" : "found", static_cast<unsigned long long>(seed),
                difference.empty() ? "" : ": ", difference.c_str());
    missed += difference.empty();
  }
  std::printf("%u of %u mutations of the model found\n", unsigned(Mutation::kCount) - 1 - missed,
              unsigned(Mutation::kCount) - 1);
  return missed > 0;
}

int usage() {
  std::fprintf(stderr, "usage: portals_model [--seed N | --seeds A-B | --mutations] [--verbose]\n");
  return 2;
}

int run(int argc, char** argv) {
  uint64_t first = 1, last = kSeeds;
  bool verbose = false, all = true, only_mutations = false;
  for (int i = 1; i < argc; ++i) {
    char* end = nullptr;
    if (!std::strcmp(argv[i], "--verbose")) {
      verbose = true;
    } else if (!std::strcmp(argv[i], "--mutations")) {
      only_mutations = true;
    } else if (!std::strcmp(argv[i], "--seed") && i + 1 < argc) {
      first = last = std::strtoull(argv[++i], &end, 10);
      all = false;
    } else if (!std::strcmp(argv[i], "--seeds") && i + 1 < argc) {
      first = std::strtoull(argv[++i], &end, 10);
      if (*end != '-') return usage();
      last = std::strtoull(end + 1, &end, 10);
      all = false;
    } else {
      return usage();
    }
    if (end && *end) return usage();
  }
  if (only_mutations) return find_mutations(verbose);
  if (all && find_mutations(verbose)) return 1;
  return compare(first, last, verbose);
}

}  // namespace

std::string run_seed(uint64_t seed, Mutation mutation, bool verbose, Totals* totals) {
  Random random(seed * 0x9e3779b97f4a7c15u);
  const Setting setting = random_setting(random);
  const auto count = unsigned(random.between(3, 6));
  World world(setting, count, mutation);
  world.model().verbose = verbose;
  Traffic traffic(world, random, verbose);
  if (verbose) std::printf("%u processes: %s\n", count, setting.describe().c_str());
  if (setting.with_link) traffic.slow_down(1000000);
  if (random.next() % 3 == 0) traffic.fill(unsigned(random.next() % count));
  const unsigned steps = unsigned(random.between(100, 500));
  const unsigned death = random.next() % 6 == 0 ? unsigned(random.between(20, steps)) : ~0u;
  for (unsigned i = 0; i < steps && !world.failed(); ++i) {
    if (i == death) {
      const auto victim = unsigned(random.next() % count);
      if (verbose) std::printf("process %u dies\n", victim);
      world.kill(victim);
      world.close();  // what it had under way ends, what it had sent may be held or lost
    }
    if (!world.failed()) traffic.step();
    if (!world.failed() && random.next() % 50 == 0) world.settle();
  }
  if (!world.failed()) world.settle();
  if (!world.failed()) world.close();
  const Model& model = world.model();
  totals->accepted += model.accepted;
  totals->held += model.held_matches;
  totals->events += model.events_seen;
  totals->known_bytes += model.known_bytes;
  totals->compared_bytes += model.compared_bytes;
  totals->calls += traffic.calls;
  if (!world.failed()) return "";
  return model.failure() + "\n  " + std::to_string(count) + " processes, " + setting.describe();
}

}  // namespace torii::model

int main(int argc, char** argv) {
  // Deaths are part of the game, and virtual time is cheap.
  setenv("TORII_LOG", "error", 0);
  setenv("TORII_PEER_DEADLINE_MS", "1000", 1);
  int interfaces = 0;
  if (PtlInit(&interfaces) != PTL_OK) return 1;
  const int status = torii::model::run(argc, argv);
  PtlFini();
  return status;
}
