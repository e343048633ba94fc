// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// torii-fabric: runs a command whose processes reach each other over emulated cards.
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "config.h"
#include "core/base/descriptor.h"
#include "core/base/emulated.h"
#include "core/base/log.h"
#include "core/base/parse.h"
#include "nic/emulator/emulator.h"
#include "nic/trace.h"

extern "C" char** environ;

namespace torii::nic {
namespace {

constexpr char kUsage[] =
    "usage: torii-fabric [OPTION...] -- COMMAND [ARGUMENT...]\n"
    "Runs the command, such as mpirun and its arguments, on emulated network cards: those of its\n"
    "processes that use Torii are spread over emulated nodes, and reach other nodes by the card\n"
    "only. All of them run on this machine. At the end it prints what each card, cable and switch\n"
    "did.\n"
    "  --card NAME       the card of each node (default skeleton):\n";
constexpr char kMoreUsage[] =
    "  --nodes N         nodes of the emulated cluster (default 2); the ranks of a job are spread\n"
    "                    over them in blocks\n"
    "  --topology SHAPE  star (default), fattree, ring:N, pair:N or mesh:XxY\n"
    "  --faults PLAN     what goes wrong, such as ber=1e-8 or cut#5/cable=2\n"
    "  --set NAME=VALUE  a parameter of the network, such as link.rate=2e9; may be repeated:\n";
constexpr char kRestOfUsage[] =
    "  --trace FILE      writes down each access, packet and interrupt; FILE.json: for a "
    "browser's\n"
    "                    trace viewer\n"
    "  --version, --help\n"
    "src/nic/README.md explains plans and parameters.\n"
    "Exit status: that of the command; 128 and the signal's number if a signal ended it; 2 for "
    "wrong\n"
    "options; 127 if it cannot be started.\n";
constexpr int kWrongOptions = 2, kNotStarted = 127;
constexpr uint64_t kLastWordsNs = 1000000000;  // for processes that end with the command

struct Options {
  FabricOptions fabric;
  std::string trace;
  char** command = nullptr;
  bool help = false, version = false;
};

int complain(const std::string& why) {
  std::fprintf(stderr, "torii-fabric: %s\n", why.c_str());
  return kWrongOptions;
}

void print_usage() {
  std::fputs(kUsage, stdout);
  for (const CardKind& kind : card_kinds())
    std::printf("    %s, %u process%s a card: %s\n", kind.name, kind.contexts,
                kind.contexts == 1 ? "" : "es", kind.doc);
  std::fputs(kMoreUsage, stdout);
  std::string line;
  const std::vector<std::string> names = parameter_names();
  for (size_t i = 0; i < names.size(); i++) {
    line += " " + names[i] + (i + 1 < names.size() ? "," : "");
    if (line.size() < 70 && i + 1 < names.size()) continue;
    std::printf("   %s\n", line.c_str());
    line.clear();
  }
  std::fputs(kRestOfUsage, stdout);
}

bool parse(int argc, char** argv, Options* out, std::string* why) {
  const option known[] = {{"card", required_argument, nullptr, 'c'},
                          {"nodes", required_argument, nullptr, 'n'},
                          {"topology", required_argument, nullptr, 't'},
                          {"faults", required_argument, nullptr, 'f'},
                          {"set", required_argument, nullptr, 's'},
                          {"trace", required_argument, nullptr, 'r'},
                          {"help", no_argument, nullptr, 'h'},
                          {"version", no_argument, nullptr, 'v'},
                          {nullptr, 0, nullptr, 0}};
  opterr = 0;
  for (int c; (c = getopt_long(argc, argv, "+:", known, nullptr)) != -1;) {
    const std::string value = optarg ? optarg : "";
    const auto [name, mark, setting] = split_at(value, "=");
    if (c == 'c') out->fabric.card = value;
    if (c == 't') out->fabric.topology = value;
    if (c == 'f') out->fabric.faults = value;
    if (c == 'r') out->trace = value;
    if (c == 'h') out->help = true;
    if (c == 'v') out->version = true;
    uint32_t& nodes = out->fabric.nodes;
    if (c == 'n' && (!parse_whole(value, &nodes) || nodes < 1 || nodes > kEmulatedNodesMax)) {
      *why = format_text("--nodes %s: expected a number from 1 to %u", value.c_str(),
                         kEmulatedNodesMax);
      return false;
    }
    if (c == 's' && mark == 0) {
      *why = "--set " + value + ": expected NAME=VALUE, such as link.rate=2e9";
      return false;
    }
    if (c == 's') out->fabric.parameters.emplace_back(name, setting);
    if (c == '?' || c == ':') {
      *why = format_text("option %s %s; torii-fabric --help lists all", argv[optind - 1],
                         c == ':' ? "needs a value" : "is unknown");
      return false;
    }
  }
  out->command = argv + optind;
  if (out->help || out->version || *out->command) return true;
  *why = "there is no command; name one behind --, such as torii-fabric -- mpirun -n 2 ./program";
  return false;
}

// The variables that the processes of the command find in their environment.
bool set_environment(const Emulator& emulator, const FabricOptions& options, std::string* why) {
  const std::string place = emulated_cluster_text({emulator.socket(), options.nodes});
  const std::string drivers = "self,shm," + options.card;
  const char* const theirs = getenv("TORII_DRIVERS");
  if (theirs && (std::string(",") + theirs + ",").find(options.card + ",") == std::string::npos) {
    *why = format_text("TORII_DRIVERS=%s does not name %s, the card; leave it out, or use %s",
                       theirs, options.card.c_str(), drivers.c_str());
    return false;
  }
  // A process that waits leaves its processor to the emulator.
  if (setenv(kFabricVariable, place.c_str(), 1) == 0 &&
      setenv("TORII_DRIVERS", drivers.c_str(), 0) == 0 && setenv("TORII_WAIT", "sleep", 0) == 0)
    return true;
  *why = format_text("the environment of the command cannot be set: %m; make it smaller");
  return false;
}

// The command, as a child of this process.
class Command {
 public:
  // 0 or an errno.
  int start(char** command);
  int signals() const { return signals_.get(); }
  // Sees to the signals that have come. False: the command has ended.
  bool see_to_signals();
  int status() const { return status_; }

 private:
  pid_t pid_ = 0;
  Descriptor signals_;
  int status_ = 0;
};

int Command::start(char** command) {
  sigset_t watched, before;
  // Where the caller of this program ignores it, nobody would be told that the command has ended.
  signal(SIGCHLD, SIG_DFL);
  sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, &before);
  signals_.reset(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return errno;
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &before);
  const int error = posix_spawnp(&pid_, command[0], nullptr, &attributes, command, environ);
  posix_spawnattr_destroy(&attributes);
  return error;
}

bool Command::see_to_signals() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    // Those of a terminal go to the command as well.
    if (info.ssi_signo != SIGCHLD && info.ssi_code != SI_KERNEL)
      kill(pid_, static_cast<int>(info.ssi_signo));
  }
  int status;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return false;
}

void print_report(Emulator& emulator, const FabricOptions& options) {
  const Fabric& fabric = emulator.fabric();
  std::string text = format_text(
      "torii-fabric: %s, %u nodes, %s; %llu processes; %llu us by the clock of the cards\n",
      options.card.c_str(), fabric.nodes(), options.topology.c_str(),
      static_cast<unsigned long long>(emulator.attached()),
      static_cast<unsigned long long>(emulator.fabric().engine().now_ns() / 1000));
  text += fabric.report();
  if (emulator.attached() == 0)
    text +=
        "torii-fabric: no process has opened a card; let the program use Torii, for example by "
        "mpirun $(torii-env --mpirun)\n";
  if (emulator.present() > 0)
    text += format_text(
        "torii-fabric: %zu processes outlive the command and lose their cards; end them\n",
        emulator.present());
  std::fputs(text.c_str(), stderr);
}

int run(int argc, char** argv) {
  Options options;
  std::string why;
  if (!parse(argc, argv, &options, &why)) return complain(why);
  if (options.help || options.version) {
    if (options.help) print_usage();
    if (options.version) std::printf("torii-fabric %s\n", PACKAGE_VERSION);
    return std::fflush(stdout) == 0 ? 0 : 1;
  }
  if (on_emulated_cluster())
    return complain(
        format_text("%s is set: this is a process of another torii-fabric; start it "
                    "outside, or unset the variable",
                    kFabricVariable));
  std::unique_ptr<Trace> trace;
  if (!options.trace.empty()) {
    trace = open_trace(options.trace, &why);
    if (!trace) return complain(why);
  }
  const std::unique_ptr<Emulator> emulator = Emulator::make(options.fabric, &why);
  if (!emulator || !set_environment(*emulator, options.fabric, &why)) return complain(why);
  emulator->fabric().engine().trace = trace.get();
  Command command;
  if (const int error = command.start(options.command)) {
    complain(format_text("%s cannot be started: %s; check its name and PATH", options.command[0],
                         strerror(error)));
    return kNotStarted;
  }
  emulator->serve(command.signals(), [&] { return command.see_to_signals(); });
  emulator->finish(kLastWordsNs);
  print_report(*emulator, options.fabric);
  return command.status();
}

}  // namespace
}  // namespace torii::nic

int main(int argc, char** argv) { return torii::nic::run(argc, argv); }
