// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

#include <string>

namespace torii {

// This host's name, as gethostname(2) tells it; "?" if it cannot be told.
std::string host_name();

}  // namespace torii
