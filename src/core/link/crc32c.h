// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// CRC-32C (Castagnoli), as in iSCSI (RFC 3720, appendix B.4): polynomial 0x1edc6f41, reflected,
// started and finished with all ones.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torii {

// Continues a checksum over more bytes; 0 starts one.
uint32_t crc32c(uint32_t crc, const void* data, size_t bytes);

// The two ways, for tests: with tables, and with the processor's instruction where it has one.
uint32_t crc32c_table(uint32_t crc, const void* data, size_t bytes);
bool crc32c_has_instruction();

}  // namespace torii
