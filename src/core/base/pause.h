// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

namespace torii {

// Tells the processor that this thread waits for a word to change; takes some 25 to 50 ns where
// there is such an instruction, else nothing.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until what was read before has arrived, where there is such an instruction.
inline void finish_reads() {
#if defined(__x86_64__)
  asm volatile("lfence" ::: "memory");
#endif
}

}  // namespace torii
