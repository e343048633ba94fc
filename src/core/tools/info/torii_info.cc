// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// torii-info: what this Torii is, what its drivers can do here, and every parameter.
#include <errno.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "config.h"
#include "core/base/counters.h"
#include "core/base/hardware.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/link/link.h"
#include "core/tools/info/paths_table.h"
#include "core/tools/machine.h"
#include "core/tools/table.h"
#include "core/trust/key_pair.h"
#include "drivers/interfaces.h"

using namespace torii;

namespace {

constexpr char kUsage[] =
    "usage: torii-info [--drivers] [--paths] [--params] [--counters] [--machine]\n"
    "                  [--md | --json]\n"
    "Shows the version, the drivers with what they can do here, the parameters and facts about "
    "this\n"
    "machine; or only the parts named.\n"
    "  --drivers   capabilities of every driver, and why one is unusable\n"
    "  --paths     how messages travel by every driver, by their length in bytes\n"
    "  --params    every parameter: value in force, default, where the value came from, meaning\n"
    "  --counters  every counter and its meaning\n"
    "  --machine   what this machine allows, as far as it bears on the choice of paths\n"
    "  --md        as Markdown tables\n"
    "  --json      as JSON\n"
    "  --version, --help\n"
    "Exit status: 0; 1 if a driver that TORII_DRIVERS names is unusable; 2 for a wrong option.\n";

struct Options {
  bool drivers = false, paths = false, params = false, counters = false, machine = false;
  bool markdown = false, json = false, help = false, version = false;
};

bool parse(int argc, char** argv, Options* o) {
  const struct {
    const char* name;
    bool* flag;
  } known[] = {
      {"--drivers", &o->drivers},   {"--paths", &o->paths},     {"--params", &o->params},
      {"--counters", &o->counters}, {"--machine", &o->machine}, {"--md", &o->markdown},
      {"--json", &o->json},         {"--help", &o->help},       {"--version", &o->version}};
  for (int i = 1; i < argc; ++i) {
    auto option = std::find_if(std::begin(known), std::end(known),
                               [&](auto& k) { return !strcmp(argv[i], k.name); });
    if (option == std::end(known)) {
      fprintf(stderr, "torii-info: unknown option %s\n%s", argv[i], kUsage);
      return false;
    }
    *option->flag = true;
  }
  if (o->markdown && o->json) {
    fprintf(stderr, "torii-info: --md and --json exclude each other\n");
    return false;
  }
  return true;
}

// A driver is only looked at: nothing is sent to it.
class IgnoringSink final : public Sink {
 public:
  void packet(PeerId, std::span<const std::byte>) override {}
  void done(uint64_t, Status) override {}
  void peer_down(PeerId, Status) override {}
};

DriverEnv quiet_env(Sink* sink, Counters* counters) {
  static std::string why;
  static const std::unique_ptr<KeyPair> keys = KeyPair::draw(&why);
  DriverEnv env;
  env.sink = sink;
  env.counters = counters;
  env.keys = keys.get();
  return env;
}

struct CapName {
  Cap flag;
  const char* name;
};
constexpr CapName kCapNames[] = {
    {kReliable, "reliable, in order"},
    {kPeerDown, "reports dead peers"},
    {kNeedsReg, "registration is costly"},
    {kPut, "remote write"},
    {kGet, "remote read"},
    {kMulticast, "multicast"},
    {kWait, "can sleep"},
    {kGuard, "guards memory keys"},
    {kAtomic, "atomic operations"},
    {kDelivers, "tells what arrived"},
};

// Names in TORII_DRIVERS that no driver has.
std::vector<std::string> unknown_drivers() {
  std::vector<std::string> names = chosen_drivers();
  std::erase_if(names, [](const std::string& name) { return find_driver(name) != nullptr; });
  return names;
}

std::string limit_text(uint64_t value) {
  return value >= UINT32_MAX ? "unlimited" : std::to_string(value);
}

// The properties that a driver reports when it is opened here.
struct Look {
  const DriverInfo* info;
  bool wanted = false;
  bool usable = false;
  DriverCaps caps;
  uint64_t remote_min = 0;
  uint64_t take_min = kNoSize;
  bool registers_local = false, tells_changes = false, lossy_groups = false;
  uint64_t once_min = 0;
  std::string path;  // to this process, of a network without the link
  std::string why;   // not usable: the reason and the remedy
};

std::vector<std::string> caps_cells(const Look& look) {
  const DriverCaps& caps = look.caps;
  std::vector<std::string> cells;
  for (const CapName& cap : kCapNames) cells.push_back(caps.flags & cap.flag ? "yes" : "-");
  cells.push_back(look.lossy_groups ? "yes" : "-");
  for (uint64_t value : {uint64_t{caps.mtu}, uint64_t{caps.long_max}, uint64_t{caps.inline_max},
                         uint64_t{caps.pieces_max}, uint64_t{caps.batch_max},
                         uint64_t{caps.address_bytes}, uint64_t{caps.key_bytes}}) {
    cells.push_back(std::to_string(value));
  }
  cells.push_back(limit_text(caps.peers_max));
  cells.push_back(limit_text(caps.remote_max));
  cells.push_back(std::to_string(look.remote_min));
  cells.push_back(look.take_min == kNoSize ? "-" : std::to_string(look.take_min));
  cells.push_back(look.once_min ? std::to_string(look.once_min) : "-");
  cells.push_back(look.registers_local ? "yes" : "-");
  cells.push_back(look.tells_changes ? "yes" : "-");
  cells.push_back(caps.eager_advice ? std::to_string(caps.eager_advice) : "one frame");
  cells.push_back(caps.flags & kReliable ? "-" : params().link_cipher);
  cells.push_back(look.path.empty() ? "-" : look.path);
  cells.push_back(std::to_string(look.info->latency_ns));
  cells.push_back(std::to_string(look.info->mbytes_per_s));
  return cells;
}

// How a driver that says it reaches this process itself, as its peers do.
std::string path_of(Driver& driver) {
  std::vector<std::byte> own(driver.caps().address_bytes);
  driver.address(own.data());
  PeerId self = kNoPeer;
  std::string why;
  const Paths* const paths = driver.paths();
  if (!paths || driver.connect(own, &self, &why) != Status::ok) return "";
  return paths->text(self);
}

std::vector<Look> look_at_drivers() {
  const std::vector<std::string> chosen = chosen_drivers();
  std::vector<Look> looks;
  for (const DriverInfo& info : driver_list()) {
    Look& look = looks.emplace_back();
    look.info = &info;
    look.wanted = std::any_of(chosen.begin(), chosen.end(),
                              [&](const std::string& name) { return find_driver(name) == &info; });
    IgnoringSink sink;
    Counters counters;
    std::unique_ptr<Driver> driver = open_driver(info.name, quiet_env(&sink, &counters), &look.why);
    look.usable = driver != nullptr;
    if (!driver) continue;
    look.caps = driver->caps();
    look.lossy_groups = driver->lossy_groups() != nullptr;
    if (info.network && (look.caps.flags & kReliable)) look.path = path_of(*driver);
    if (const Advice* const advice = driver->advice()) {
      look.remote_min = advice->remote_min;
      look.take_min = advice->take_min;
    }
    const RegisteredMemory* const memory = driver->registered_memory();
    if (!memory) continue;
    look.registers_local = memory->local;
    look.tells_changes = memory->tells_changes;
    look.once_min = memory->once_min;
  }
  return looks;
}

// Jobs on one node do without it.
bool between_nodes_only(const DriverInfo& info) { return info.network && !param_is_set("drivers"); }

Table driver_table(const std::vector<Look>& looks) {
  Table table;
  table.name = "drivers";
  table.transposed = true;
  table.columns = {"driver", "state"};
  for (const CapName& cap : kCapNames) table.columns.push_back(cap.name);
  table.columns.push_back("lossy multicast");
  for (const char* name :
       {"largest frame, bytes", "largest long frame, bytes", "largest inline body, bytes",
        "pieces of a body", "frames of a batch", "address, bytes", "memory key, bytes",
        "most peers", "largest remote transfer, bytes", "remote transfers pay from, bytes",
        "bodies moved by the card from, bytes", "one registration pays from, bytes",
        "registers local memory", "tells of remapped memory", "eager advice, bytes", "encrypted by",
        "transport and device", "latency hint, ns", "bandwidth hint, MB/s"}) {
    table.columns.push_back(name);
  }
  for (const Look& look : looks) {
    const char* wanted = between_nodes_only(*look.info) ? "between nodes" : "in use";
    std::vector<std::string> row = {look.info->name, !look.usable  ? "unusable"
                                                     : look.wanted ? wanted
                                                                   : "available"};
    if (look.usable) {
      for (std::string& cell : caps_cells(look)) row.push_back(std::move(cell));
    }
    row.resize(table.columns.size());
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Facts that the matrix has no room for: what each driver is for, and why it does not open.
Table purpose_table(const std::vector<Look>& looks) {
  Table table;
  table.name = "purposes";
  table.columns = {"driver", "purpose"};
  for (const Look& look : looks) {
    table.rows.push_back(
        {look.info->name,
         look.usable ? look.info->doc : std::string(look.info->doc) + ". Unusable: " + look.why});
  }
  for (const std::string& name : unknown_drivers()) {
    table.rows.push_back({name, "Unusable: TORII_DRIVERS names it, but there is no such driver"});
  }
  return table;
}

// Drivers as jobs use them: those that lose frames have the link around them.
Table paths_table() {
  constexpr uint64_t kLongest = uint64_t{1} << 30;
  Table table;
  table.name = "paths";
  table.columns = {"driver", "from bytes"};
  for (const Situation& situation : kSituations) table.columns.push_back(situation.name);
  for (const DriverInfo& info : driver_list()) {
    IgnoringSink sink;
    Counters counters;
    std::string why;
    const std::unique_ptr<Driver> driver =
        open_with_link(info.name, quiet_env(&sink, &counters), &why);
    if (!driver) continue;
    const uint64_t window =
        choice::eager_window(params().eager_window, params().unexpected_memory, 2);
    const choice::Plan plan =
        choice::make_plan(driver->caps(), driver->advice(), params().eager_limit, window,
                          driver->registered_memory());
    for (const PathRange& range : path_ranges(plan, kLongest)) {
      std::vector<std::string>& row = table.rows.emplace_back();
      row = {info.name, std::to_string(range.from)};
      row.insert(row.end(), range.paths.begin(), range.paths.end());
    }
  }
  return table;
}

Table parameter_table() {
  Table table;
  table.name = "parameters";
  table.columns = {"variable", "value", "default", "origin", "meaning"};
  for (size_t i = 0; i < param_count(); ++i) {
    const ParamInfo& info = param_info(i);
    table.rows.push_back(
        {info.variable, param_text(i), info.default_text, param_origin(i), info.doc});
  }
  return table;
}

Table counter_table() {
  Table table;
  table.name = "counters";
  table.columns = {"counter", "meaning"};
  for (const CounterInfo& info : kCounterInfo) table.rows.push_back({info.name, info.doc});
  return table;
}

Table version_table() {
  utsname kernel = {};
  uname(&kernel);
  Table table;
  table.name = "build";
  table.columns = {"fact", "value"};
  table.rows = {
    {"version", PACKAGE_VERSION},
    {"compiler", __VERSION__},
#if HAVE_PMIX
    {"start-up", "PMIx, PMI-1, by hand (TORII_RANK, TORII_SIZE), alone"},
#else
    {"start-up", "PMI-1, by hand (TORII_RANK, TORII_SIZE), alone; built without PMIx"},
#endif
    {"Open MPI components", *TORII_OPENMPI_SERIES
                                ? "mtl, btl, mpool and coll, for series " TORII_OPENMPI_SERIES
                                : "not built"},
    {"system", std::string(kernel.sysname) + " " + kernel.release + " " + kernel.machine},
  };
  return table;
}

Table machine_table() {
  Table table;
  table.name = "machine";
  table.columns = {"fact", "value"};
  table.rows = {{"known to torii-tune as", signature_of(hardware())},
                {"cross-memory attach", attach_fact()},
                {"usable cores", cores_fact()},
                {"progress thread", progress_thread_fact()},
                {"/dev/shm", shared_memory_fact()},
                {"process numbers", pid_namespace_fact()},
                {"RDMA devices", rdma_fact()},
                {"locked memory", locked_memory_fact()}};
  return table;
}

void print(const Options& options, const std::vector<Table>& tables) {
  if (options.json) {
    fputs(json_of(tables).c_str(), stdout);
    return;
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    if (i) putchar('\n');
    fputs((options.markdown ? markdown_of(tables[i]) : text_of(tables[i])).c_str(), stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!parse(argc, argv, &o)) return 2;
  if (o.help || o.version) {
    if (o.help) fputs(kUsage, stdout);
    if (o.version) printf("torii-info %s\n", PACKAGE_VERSION);
    return 0;
  }
  const bool all = !(o.drivers || o.paths || o.params || o.counters || o.machine);
  bool all_well = true;
  std::vector<Table> tables;
  if (all) tables.push_back(version_table());
  if (all || o.drivers) {
    const std::vector<Look> looks = look_at_drivers();
    tables.push_back(driver_table(looks));
    tables.push_back(purpose_table(looks));
    all_well =
        unknown_drivers().empty() && std::none_of(looks.begin(), looks.end(), [](const Look& look) {
          return look.wanted && !look.usable && !between_nodes_only(*look.info);
        });
  }
  if (o.paths || (all && o.json)) tables.push_back(paths_table());
  if (all || o.machine) tables.push_back(machine_table());
  if (all || o.params) tables.push_back(parameter_table());
  if (o.counters || (all && o.json)) tables.push_back(counter_table());
  print(o, tables);
  if (fflush(stdout) || ferror(stdout)) {
    fprintf(stderr, "torii-info: cannot write: %s\n", strerror(errno));
    return 1;
  }
  return all_well ? 0 : 1;
}
