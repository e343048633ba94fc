// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// For functions that answer, and say why if the answer is no.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace torii {

// Puts a sentence for the user into *why, from a printf format, and gives back `answer`.
template <typename Answer>
[[gnu::format(printf, 3, 4)]] Answer refuse(std::string* why, Answer answer, const char* format,
                                            ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  *why = text;
  return answer;
}

}  // namespace torii
