// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Files of torii-tune.
#include "core/base/tune_file.h"
#include "fuzz/input.h"

using namespace torii;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<TunedMachine> machines, again;
  TuneFault fault;
  if (!parse_tune_file(text, &machines, &fault)) {
    require(!fault.text.empty() && machines.empty());
    return 0;
  }
  require(fault.text.empty());
  for (const TunedMachine& machine : machines)
    for (const TuneEntry& entry : machine.entries) require(entry.line > 0 && !entry.name.empty());
  const std::string written = tune_file_text(machines);
  require(parse_tune_file(written, &again, &fault) && again.size() == machines.size());
  require(tune_file_text(again) == written);
  return 0;
}
