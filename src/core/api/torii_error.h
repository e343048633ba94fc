// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The text of torii_error(), for all files of torii.h.
#pragma once

#include <string>

namespace torii {

// Keeps the sentence for this thread; returns the code.
int api_error(int code, std::string why);
// TORII_ERR_INVALID, with what is wrong with which function's arguments.
int bad_argument(const char* function, const char* what);

}  // namespace torii
