// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The file that torii-tune writes and every process reads when it starts: values of parameters
// that were measured, for several machines, because home directories are shared by machines.
//
//   # comment
//   torii-tune 1
//   [SIGNATURE]                  one machine, as signature_of() names it
//   measured = TEXT              when, and by what
//   shm_eager_limit = 128k       a parameter, as in TORII_SHM_EAGER_LIMIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace torii {

inline constexpr size_t kTuneFileMax = 64 << 10;  // bytes

struct TuneEntry {
  std::string name;
  std::string value;
  unsigned line = 0;
};

struct TunedMachine {
  std::string signature;
  std::string measured;
  std::vector<TuneEntry> entries;
};

// Something is wrong with a file. `line` is 0 if no single one is to blame.
struct TuneFault {
  unsigned line = 0;
  std::string text;
  bool newer = false;  // written by a later version: not to be replaced
};

// False if the text is no such file; *out is empty then. Whether an entry's name and value are good
// is for the parameters to say.
bool parse_tune_file(std::string_view text, std::vector<TunedMachine>* out, TuneFault* fault);
std::string tune_file_text(const std::vector<TunedMachine>& machines);

// Reads and parses. A file that does not exist has no machines; then *exists is false.
bool read_tune_file(const std::string& path, std::vector<TunedMachine>* out, bool* exists,
                    TuneFault* fault);

// Where torii-tune puts the file, and where it is looked for first: under XDG_CONFIG_HOME or
// HOME/.config. Empty if neither is set.
std::string user_tune_file();
// For all users of the machine: in the folder for configuration that Torii was built with.
std::string system_tune_file();

// The tuning that applies to a machine: `wanted` is a path, "auto" (the user's file, then the
// system's), or empty (none).
struct TuneChoice {
  std::string path;          // of the file that was read last; empty: none exists
  const char* missing = "";  // nothing applies, and the user asked for this file: why
  TunedMachine machine;      // no entries: nothing applies
  TuneFault fault;           // with a text: the file is wrong, and nothing applies
};
TuneChoice choose_tuned(const std::string& wanted, const std::string& signature);

}  // namespace torii
