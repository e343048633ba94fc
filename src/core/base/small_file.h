// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Reading files that are small, or of which the beginning is enough.
#pragma once

#include <cstddef>
#include <string>

namespace torii {

// Appends the first `most` bytes of a regular file (or one of the kernel's) to *out, never waiting
// for anybody. False with errno, EINVAL for a pipe, a folder and the like.
bool read_beginning(const std::string& path, size_t most, std::string* out);

}  // namespace torii
