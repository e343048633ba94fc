// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Where this process is and what it may do here.
#pragma once

#include "core/tools/check/check_data.h"

namespace torii::check {

// All but the endpoints. Tries cross-memory attach with two child processes.
Facts gather_facts();

}  // namespace torii::check
