// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Numbers in texts, such as options and plans.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace torii {

// The text is that number and nothing else. False: it is not; *out is undefined then.
template <typename T>
bool parse_whole(std::string_view text, T* out) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && stop == end;
}

}  // namespace torii
