// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/trace.h"

#include <cstdio>
#include <memory>
#include <utility>

#include "core/base/log.h"

namespace torii::nic {
namespace {

int width(std::string_view text) { return static_cast<int>(text.size()); }

}  // namespace

Trace::Trace(TraceFormat format, Write write) : format_(format), write_(std::move(write)) {
  if (format_ == TraceFormat::chrome) write_("[");
}

Trace::~Trace() {
  if (format_ == TraceFormat::chrome) write_("\n]\n");
}

void Trace::record(uint64_t start_ns, uint64_t ns, std::string_view unit, std::string_view what) {
  if (format_ == TraceFormat::text) {
    write_(format_text("%12llu %8llu %-10.*s %.*s\n", static_cast<unsigned long long>(start_ns),
                       static_cast<unsigned long long>(ns), width(unit), unit.data(), width(what),
                       what.data()));
    return;
  }
  const char* const comma = rows_.empty() ? "" : ",";
  auto row = rows_.find(unit);
  if (row == rows_.end()) {
    row = rows_.emplace(unit, static_cast<unsigned>(rows_.size())).first;
    write_(
        format_text("%s\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":%u,"
                    "\"args\":{\"name\":\"%.*s\"}}",
                    comma, row->second, width(unit), unit.data()));
  }
  write_(format_text(
      ",\n{\"ph\":\"X\",\"name\":\"%.*s\",\"pid\":0,\"tid\":%u,\"ts\":%llu.%03llu,"
      "\"dur\":%llu.%03llu}",
      width(what), what.data(), row->second, static_cast<unsigned long long>(start_ns / 1000),
      static_cast<unsigned long long>(start_ns % 1000), static_cast<unsigned long long>(ns / 1000),
      static_cast<unsigned long long>(ns % 1000)));
}

std::unique_ptr<Trace> open_trace(const std::string& name, std::string* why) {
  const std::shared_ptr<FILE> file(std::fopen(name.c_str(), "we"), [](FILE* f) {
    if (f) std::fclose(f);
  });
  if (!file) {
    *why = format_text("trace: cannot write %s (%m); name a file in a folder that is writable",
                       name.c_str());
    return nullptr;
  }
  const TraceFormat format = name.ends_with(".json") ? TraceFormat::chrome : TraceFormat::text;
  return std::make_unique<Trace>(format, [file](std::string_view text) {
    static_cast<void>(std::fwrite(text.data(), 1, text.size(), file.get()));
  });
}

}  // namespace torii::nic
