// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// CRC-32C (Castagnoli), as in iSCSI (RFC 3720, appendix B.4): polynomial 0x1edc6f41, reflected,
// started and finished with all ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace torii {

// Continues a checksum over more bytes; 0 starts one.
uint32_t crc32c(uint32_t crc, const void* data, size_t bytes);

// All that this processor can do, the best first, for tests.
struct Crc32cWay {
  const char* name;
  uint32_t (*sum)(uint32_t crc, const void* data, size_t bytes);
};
std::span<const Crc32cWay> crc32c_ways();

}  // namespace torii
