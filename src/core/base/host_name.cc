// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/host_name.h"

#include <limits.h>
#include <unistd.h>

namespace torii {

std::string host_name() {
  // The longest name leaves no room for a terminator in fewer bytes, and then nothing is told.
  char name[HOST_NAME_MAX + 1];
  return gethostname(name, sizeof name) == 0 ? name : "?";
}

}  // namespace torii
