// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Parts of texts, such as options and plans, and the numbers in them.
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

// A text in three: up to the first of some marks, that mark, and the rest. Without one the mark is
// 0 and `before` is all of the text.
struct TextParts {
  std::string_view before;
  char mark;
  std::string_view behind;
};
inline TextParts split_at(std::string_view text, std::string_view marks) {
  const size_t at = text.find_first_of(marks);
  if (at == std::string_view::npos) return {text, 0, {}};
  return {text.substr(0, at), text[at], text.substr(at + 1)};
}

}  // namespace torii
