// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Parameters: one table (params.def), one struct with the values in force, and for each value
// where it came from. Read once when the first network interface opens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace torii {

struct Params {
#define TORII_PARAM_SIZE(name, value, min, max, doc) uint64_t name = value;
#define TORII_PARAM_TUNED(name, max, doc) uint64_t name = 0;
#define TORII_PARAM_INT(name, value, min, max, doc) int64_t name = value;
#define TORII_PARAM_BOOL(name, value, doc) bool name = value;
#define TORII_PARAM_TEXT(name, value, doc) std::string name = value;
#include "core/base/params.def"
#undef TORII_PARAM_SIZE
#undef TORII_PARAM_TUNED
#undef TORII_PARAM_INT
#undef TORII_PARAM_BOOL
#undef TORII_PARAM_TEXT
};

enum class ParamKind { size, integer, boolean, text };

struct ParamInfo {
  const char* name;      // as in the table
  const char* variable;  // TORII_NAME
  ParamKind kind;
  const char* default_text;  // as the user would write it
  const char* doc;
  bool tuned;  // torii-tune measures it
};

size_t param_count();
const ParamInfo& param_info(size_t index);

// The values in force. The first call reads the environment: a bad value is reported with the
// name, the value and what is allowed, and the default stays; an unknown TORII_* variable is
// reported with the nearest valid name. Then comes the file of torii-tune (tune_file.h), for tuned
// parameters that the environment does not set: it applies as a whole or, if anything in it is
// wrong, not at all, which is reported. Not thread-safe before the first call returns.
const Params& params();

// Sets a value from another source (an MCA parameter, a tool's option). It wins over a tune file,
// an environment variable of the user's over it. Returns invalid, with the reason in *why, and
// changes nothing if the name or text is wrong. Must precede the opening of the first network
// interface.
Status param_set(std::string_view name, std::string_view text, std::string_view origin,
                 std::string* why);

// Present value as text, and where it came from ("default", "tune file PATH",
// "environment", or param_set's origin).
std::string param_text(size_t index);
std::string param_origin(size_t index);
// Did anybody set it? The name must be one of the table.
bool param_is_set(std::string_view name);

}  // namespace torii
