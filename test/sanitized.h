// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Which sanitizer this is built with: g++ says it by macros, clang++ by a question.
#pragma once

#include <cstdlib>

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

namespace torii::test {

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

inline constexpr bool kSanitized = kAddressSanitizer || kThreadSanitizer;

// Whether a simulation runs more seeds, or fewer: contrib/check --long has time, and sanitized ones
// are slow.
inline bool in_long() { return std::getenv("TORII_TEST_LONG") != nullptr; }
inline bool in_short() { return kSanitized && !in_long(); }

}  // namespace torii::test
