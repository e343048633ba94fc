// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The results of torii-tune: the file, and the tables that it prints.
#pragma once

#include <string>
#include <vector>

#include "core/base/tune_file.h"
#include "core/tools/table.h"
#include "core/tools/tune/tune_rounds.h"

namespace torii::tune {

// Could that file be written? Makes the folders that lead to it. False with one sentence.
bool prepare_output(const std::string& path, std::string* why);

// Puts the machine into the file in place of what it said about it; other machines stay. A file
// that cannot be understood is kept as PATH.old, which *note then says; one of a later version is
// left alone. Others see the old file or the new one. False with one sentence.
bool write_machine(const std::string& path, const TunedMachine& machine, std::string* note,
                   std::string* why);

// Times by size and figure, of configurations 0 and 1 in turn, and what the second gains.
Table gain_table(const Measured& measured);

// The mean over all cells of log(time of 1 / time of 0), each bounded.
double mean_gain(const Measured& measured);

}  // namespace torii::tune
