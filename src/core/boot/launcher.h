// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Inside the boot room: the ways to start, and what they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/host_name.h"
#include "core/base/status.h"
#include "core/boot/boot.h"

namespace torii {

// Each returns null with the reason in *why.
std::unique_ptr<Boot> open_pmix_boot(std::string* why);
std::unique_ptr<Boot> open_pmi1_boot(std::string* why);
std::unique_ptr<Boot> open_environment_boot(std::string* why);

// A nonzero number for a job's name.
uint64_t job_number(std::string_view name);

// The moment at which a wait of `ms` milliseconds that begins now must end.
class Deadline {
 public:
  explicit Deadline(int64_t ms);
  // Milliseconds left, rounded up; 0 when it has passed. For poll().
  int left_ms() const;
  bool passed() const { return left_ms() == 0; }

 private:
  int64_t end_ns_;
};

// Waits until `events` (POLLIN, POLLOUT) are possible on fd or the deadline passes (timed_out).
Status wait_for(int fd, short events, const Deadline& deadline);
// Sends all bytes on a socket. io_error leaves the reason in errno.
Status send_all(int fd, const void* bytes, size_t count, const Deadline& deadline);

// For calls of other libraries that have no deadline: runs `work` on a thread of its own.
// timed_out: boot_deadline_ms have passed, and it goes on there, maybe for ever; so what it uses
// must be its own. no_memory: the system gives no thread.
Status run_with_deadline(std::function<void()> work);

// The decimal number `text` if it is between min and max.
bool parse_number(std::string_view text, uint32_t min, uint32_t max, uint32_t* number);
// The same for an environment variable. False with a sentence in *why if it is missing or wrong.
bool read_number(const char* variable, uint32_t min, uint32_t max, uint32_t* number,
                 std::string* why);

// PMI-1 values: the bytes as hexadecimal digits behind their number, in pieces of at most
// `piece_max` characters, e.g. "3:0a0b" "0c".
std::vector<std::string> encode_pieces(std::span<const std::byte> bytes, size_t piece_max);
// Joined pieces back into bytes. Returns false for anything encode_pieces() does not make; *more
// then tells whether further pieces are missing.
bool decode_pieces(std::string_view text, std::vector<std::byte>* bytes, bool* more);

// PMI-1's "(vector,(first node,nodes,processes per node),...)" as the node of every rank.
bool parse_process_mapping(std::string_view text, uint32_t size, std::vector<uint32_t>* nodes);

}  // namespace torii
