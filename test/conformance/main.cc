// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// torii-conformance: runs the cases over drivers. Without --driver: over all of them.
#include <getopt.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <span>

#include "conformance/kit.h"
#include "core/base/param.h"

namespace torii::kit {
namespace {

class KitTest : public testing::Test {
 public:
  KitTest(const Case& c, const Rig& rig) : case_(c), rig_(rig) {}
  void TestBody() override {
    uint32_t flags;
    {
      rig_.reset();
      Node probe(rig_);
      flags = probe.caps().flags;
    }
    if (const char* reason = why_not(case_, rig_, flags)) GTEST_SKIP() << reason;
    SCOPED_TRACE(rig_.name + ", seed " + std::to_string(rig_.seed) + ": " + case_.rule);
    run_case(case_, rig_);
  }

 private:
  Case case_;
  Rig rig_;
};

constexpr char kUsage[] =
    "usage: torii-conformance [--driver NAME] [--faults PLAN] [--filter PATTERN] [--seed N]\n"
    "                         [--list]\n"
    "  --driver NAME     a driver as in TORII_DRIVERS, such as shm or fault:shm, or one of the\n"
    "                    configurations that --list shows; without it: all of them\n"
    "  --faults PLAN     for fault:NAME; see src/drivers/fault/README.md\n"
    "  --filter PATTERN  only cases like this (* and ? match anything)\n"
    "  --seed N          another run of the dice (default 1)\n"
    "  --list            show configurations and cases\n";

void add(const Rig& rig) {
  std::string suite = rig.name;
  for (const Case& c : all_cases()) {
    testing::RegisterTest(suite.c_str(), c.name, nullptr, nullptr, __FILE__, __LINE__,
                          [c, rig]() -> testing::Test* { return new KitTest(c, rig); });
  }
}

// As a case's other process; see kit.h.
int serve_case(const std::string& name, std::string_view digits) {
  std::vector<std::byte> parent;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    parent.push_back(std::byte(std::stoul(std::string(digits.substr(i, 2)), nullptr, 16)));
  return serve(named_rig(name, 1), parent, STDOUT_FILENO);
}

int list(uint64_t seed) {
  for (const Rig& rig : all_rigs(seed)) std::printf("%s\n", rig.name.c_str());
  for (const Case& c : all_cases()) std::printf("  %-42s %s\n", c.name, c.rule);
  return 0;
}

int usage_error(const std::string& text) {
  std::fprintf(stderr, "torii-conformance: %s\n%s", text.c_str(), kUsage);
  return 2;
}

int run(int argc, char** argv) {
  const option options[] = {{"driver", required_argument, nullptr, 'd'},
                            {"faults", required_argument, nullptr, 'f'},
                            {"filter", required_argument, nullptr, 'p'},
                            {"seed", required_argument, nullptr, 's'},
                            {"list", no_argument, nullptr, 'l'},
                            {"help", no_argument, nullptr, 'h'},
                            {nullptr, 0, nullptr, 0}};
  std::string driver, why;
  // The virtual clock of a case covers less than a second.
  if (param_set("peer_deadline_ms", "150", "torii-conformance", &why) != Status::ok)
    return usage_error(why);
  if (argc == 4 && std::string_view(argv[1]) == kServeOption) return serve_case(argv[2], argv[3]);
  uint64_t seed = 1;
  bool want_list = false;
  for (int c; (c = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    char* end = nullptr;
    if (c == 'd') driver = optarg;
    if (c == 'f' && param_set("fault", optarg, "--faults", &why) != Status::ok)
      return usage_error(why);
    if (c == 'p') testing::GTEST_FLAG(filter) = std::string("*.") + optarg;
    if (c == 's') seed = std::strtoull(optarg, &end, 10);
    if (end && (*end || end == optarg)) return usage_error(std::string("bad seed ") + optarg);
    if (c == 'l') want_list = true;
    if (c == 'h') return std::fputs(kUsage, stdout) < 0;
    if (c == '?') return usage_error("see above");
  }
  if (optind < argc) return usage_error(std::string("unexpected argument ") + argv[optind]);
  if (want_list) return list(seed);
  bool found = false;
  for (const Rig& rig : all_rigs(seed)) {
    if (!driver.empty() && driver != rig.name) continue;
    add(rig);
    found = true;
  }
  if (!found) add(named_rig(driver, seed));
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace torii::kit

int main(int argc, char** argv) {
  testing::InitGoogleTest();
  return torii::kit::run(argc, argv);
}
