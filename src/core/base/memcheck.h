// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

#include <cstddef>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif

namespace torii {

// Tells valgrind that these bytes have values: other processes write them, which it does not see.
// Costs a few instructions without valgrind, and nothing where its headers were not there.
inline void written_by_others([[maybe_unused]] const void* base, [[maybe_unused]] size_t bytes) {
#ifdef VALGRIND_MAKE_MEM_DEFINED
  (void)VALGRIND_MAKE_MEM_DEFINED(base, bytes);
#endif
}

}  // namespace torii
