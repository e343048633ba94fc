// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A record of what happened on a fabric: one line for each bus access, packet and interrupt, or the
// same for a browser's trace viewer (chrome://tracing, Perfetto).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace torii::nic {

enum class TraceFormat : uint8_t { text, chrome };

class Trace {
 public:
  using Write = std::function<void(std::string_view text)>;

  Trace(TraceFormat format, Write write);
  ~Trace();  // completes the record
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // `unit`, such as "link3", did `what` for ns nanoseconds from start_ns on.
  void record(uint64_t start_ns, uint64_t ns, std::string_view unit, std::string_view what);

 private:
  const TraceFormat format_;
  const Write write_;
  std::map<std::string, unsigned, std::less<>> rows_;  // of the trace viewer, by unit
};

// Reads "FILE" or "FILE.json". Null with the reason in *why.
std::unique_ptr<Trace> open_trace(const std::string& file, std::string* why);

}  // namespace torii::nic
