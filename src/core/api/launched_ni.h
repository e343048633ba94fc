// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

#include "core/api/ni_registry.h"

namespace torii {

// The interface of PtlNIInit: identity and peers as the launcher of this process tells (boot/).
extern const NiOpener kLaunchedNi;

}  // namespace torii
