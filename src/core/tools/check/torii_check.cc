// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// torii-check: would a job run on these nodes, and what would stand in its way?
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "config.h"
#include "core/base/container.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/tools/check/check_facts.h"
#include "core/tools/check/check_hosts.h"
#include "core/tools/check/check_meeting.h"
#include "core/tools/check/check_run.h"
#include "core/tools/check/check_verdict.h"

using namespace torii;
using namespace torii::check;

namespace {

constexpr char kUsage[] =
    "usage: mpirun -n N --host HOSTS torii-check [options]\n"
    "       torii-check --hosts HOST[:PROCESSES],... [options]\n"
    "Checks, before a job, what it would meet: which processes reach which and by which "
    "interfaces,\n"
    "round-trip times, loss, path MTU, multicast, cross-memory attach, /dev/shm, socket buffers.\n"
    "The first form runs under any launcher that starts Torii's programs (PMIx, PMI-1); the "
    "second\n"
    "starts itself on the hosts by a remote shell and needs no MPI.\n"
    "  --hosts LIST      where to run; n1,n2:4 is one process on n1 and four on n2\n"
    "  --launch COMMAND  the remote shell, with its options (default: ssh)\n"
    "  --program PATH    torii-check on the hosts (default: this one's path)\n"
    "  --deadline SEC    the whole check takes no longer, whoever is silent (default: 10); under "
    "a\n"
    "                    launcher half as long again if a process dies\n"
    "  --multicast SEC   multicast for so long, and take so much longer: a switch that snoops "
    "IGMP\n"
    "                    without a querier forgets who has joined after some 260 seconds\n"
    "  --verbose         all tables, and what is of no consequence\n"
    "  --json            for programs; all values are texts\n"
    "  --strict          warnings count as failures\n"
    "  --version, --help\n"
    "Failures are what would make a job fail, hang or not start; warnings (loss that is repaired, "
    "an\n"
    "interface that lies idle, no multicast, no cross-memory attach, small buffers) make it "
    "slower.\n"
    "Exit status: 0; 1 for a failure; 2 for a wrong option.\n";

struct Options {
  HostsOptions hosts;
  bool verbose = false, json = false, strict = false, part = false, help = false, version = false;
};

bool wrong(const std::string& why) {
  fprintf(stderr, "torii-check: %s\n%s", why.c_str(), kUsage);
  return false;
}

void split(const std::string& text, std::vector<std::string>* words) {
  for (size_t at = 0; at < text.size();) {
    const size_t space = std::min(text.find(' ', at), text.size());
    if (space > at) words->push_back(text.substr(at, space - at));
    at = space + 1;
  }
}

bool parse_seconds(const char* text, uint64_t* out) {
  char* end = nullptr;
  const double seconds = strtod(text, &end);
  if (end == text || *end || !(seconds >= 1 && seconds <= 3600)) return false;
  *out = static_cast<uint64_t>(seconds * 1000);
  return true;
}

std::string own_path() {
  char path[PATH_MAX] = "";
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "torii-check";
}

bool parse(int argc, char** argv, Options* o) {
  const struct {
    const char* name;
    bool* flag;
  } flags[] = {{"--verbose", &o->verbose}, {"--json", &o->json}, {"--strict", &o->strict},
               {"--part", &o->part},       {"--help", &o->help}, {"--version", &o->version}};
  o->hosts.deadline_ms = 10000;
  std::string launch = "ssh", why;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i];
    bool known = false;
    for (const auto& one : flags)
      if (word == one.name) known = *one.flag = true;
    if (known) continue;
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word != "--hosts" && word != "--launch" && word != "--program" && word != "--deadline" &&
        word != "--multicast")
      return wrong("unknown option " + word);
    if (!value) return wrong(word + " needs a value");
    i++;
    if (word == "--hosts" && !parse_hosts(value, &o->hosts.hosts, &why)) return wrong(why);
    if (word == "--launch") launch = value;
    if (word == "--program") o->hosts.program = value;
    uint64_t* const ms = word == "--deadline"    ? &o->hosts.deadline_ms
                         : word == "--multicast" ? &o->hosts.multicast_ms
                                                 : nullptr;
    if (ms && !parse_seconds(value, ms))
      return wrong(word + " " + value + ": from 1 to 3600 seconds");
  }
  split(launch, &o->hosts.launch);
  if (o->hosts.launch.empty()) return wrong("--launch: no command");
  if (o->hosts.program.empty()) o->hosts.program = own_path();
  return true;
}

// However it hangs, it ends.
void set_alarm(uint64_t deadline_ms, uint64_t multicast_ms) {
  signal(SIGALRM, [](int) {
    constexpr char text[] = "torii-check: the check did not end in time; this process gives up\n";
    if (write(2, text, sizeof text - 1) < 0) _exit(3);
    _exit(1);
  });
  alarm(static_cast<unsigned>((2 * deadline_ms + multicast_ms) / 1000 + 2));
}

int tell(const Options& o, const std::vector<Participant>& all, const Plan& plan) {
  const Verdict verdict = judge(all, plan);
  fputs((o.json ? json_of(verdict) : text_of(verdict, o.verbose)).c_str(), stdout);
  if (fflush(stdout) || ferror(stdout)) {
    fprintf(stderr, "torii-check: cannot write: %s\n", strerror(errno));
    return 1;
  }
  return has(verdict, Severity::failure) || (o.strict && has(verdict, Severity::warning)) ? 1 : 0;
}

// More nodes than the deadline has time for.
bool fits(const Plan& plan, uint64_t deadline_ms) {
  if (plan.needed_ms <= deadline_ms) return true;
  fprintf(stderr, "torii-check: %zu nodes take longer; say --deadline %llu\n", plan.places.size(),
          static_cast<unsigned long long>(plan.needed_ms / 1000 + 1));
  return false;
}

// A process without shared memory meets those of its node as those of others, in a job as here.
void settle_place(const Meeting& meeting, Facts* facts) {
  const bool shares =
      std::all_of(facts->endpoints.begin(), facts->endpoints.end(),
                  [](const Endpoint& end) { return end.network || end.why.empty(); });
  if (!shares) {
    facts->place += " alone";
    for (const std::byte b : facts->dice) facts->place += format_text(" %02x", unsigned(b));
  }
  facts->opens_network = meeting.size() > meeting.local_size() || param_is_set("drivers") ||
                         !shares || launcher_is_outside();
}

// One process of the check.
int take_part(const Options& o, Meeting& meeting) {
  constexpr uint64_t kTailNs = 100000000;  // the others may have begun a little later
  set_alarm(meeting.deadline_ms(), meeting.multicast_ms());
  Facts facts = gather_facts();
  Run run(meeting.local_size(), &facts);
  settle_place(meeting, &facts);
  std::vector<Participant> all(meeting.size());
  const std::vector<Given> given = meeting.exchange(encode(facts));
  for (size_t i = 0; i < all.size(); i++) {
    all[i].why = given[i].why;
    all[i].present = given[i].there && decode(given[i].bytes, &all[i].facts);
    if (given[i].there && !all[i].present) all[i].why = "it is of another version";
  }
  const Plan plan = make_plan(all, meeting.deadline_ms(), meeting.multicast_ms());
  if (meeting.judges() && !fits(plan, meeting.deadline_ms())) return 2;
  if (plan.needed_ms > meeting.deadline_ms()) return 0;
  Participant& self = all[meeting.rank()];
  if (!run.check(meeting.rank(), all, plan, meeting.stop(), &self.seen) ||
      !run.serve(clock_ns() + kTailNs))
    return 1;
  const std::vector<Given> seen = meeting.deliver(encode(self.seen));
  if (!meeting.judges()) return 0;
  for (size_t i = 0; i < all.size(); i++) {
    all[i].reported = seen[i].there && decode(seen[i].bytes, &all[i].seen);
    if (!seen[i].there && i == meeting.rank()) all[i].reported = true;
    if (!seen[i].there && all[i].present) all[i].why = seen[i].why;
  }
  return tell(o, all, plan);
}

int by_hand(const Options& o) {
  const std::vector<Participant> all = check_hosts(o.hosts);
  const Plan plan = make_plan(all, o.hosts.deadline_ms, o.hosts.multicast_ms);
  return fits(plan, o.hosts.deadline_ms) ? tell(o, all, plan) : 2;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!parse(argc, argv, &o)) return 2;
  if (o.help || o.version) {
    if (o.help) fputs(kUsage, stdout);
    if (o.version) printf("torii-check %s\n", PACKAGE_VERSION);
    return 0;
  }
  if (!o.part && !o.hosts.hosts.empty()) return by_hand(o);
  std::string why;
  const std::unique_ptr<Meeting> meeting =
      o.part ? meet_by_pipe(&why)
             : meet_by_launcher(o.hosts.deadline_ms, o.hosts.multicast_ms, &why);
  if (meeting) return take_part(o, *meeting);
  fprintf(stderr, "torii-check: %s\n", why.c_str());
  return 1;
}
