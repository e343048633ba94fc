// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// An interface between a user and two peers that may say anything: nothing crashes or leaks,
// memory is touched only while it is lent, every operation ends.
#include "core/base/param.h"
#include "fuzz/world.h"

using namespace torii;

namespace {

constexpr int kSteps = 300;

bool set_up() {
  std::string why;
  return param_set("eager_window", "8k", "fuzzer", &why) == Status::ok &&
         param_set("log", "error", "fuzzer", &why) == Status::ok;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool ready = set_up();
  fuzz::require(ready);
  fuzz::Input in(data, size);
  fuzz::World world(in);
  for (int i = 0; i < kSteps && !in.empty(); ++i) world.step();
  world.finish();
  return 0;
}
