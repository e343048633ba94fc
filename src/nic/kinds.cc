// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The cards that there are, and the parameters that can be set.
#include <charconv>

#include "core/base/log.h"
#include "nic/model.h"
#include "nic/myrinet/model.h"
#include "nic/nectar/model.h"
#include "nic/qsnet/model.h"
#include "nic/sci/model.h"
#include "nic/skeleton/model.h"
#include "nic/tnet/model.h"

namespace torii::nic {
namespace {

constexpr CardKind kKinds[] = {skeleton::kKind, tnet::kKind,   myrinet::kKind,
                               qsnet::kKind,    nectar::kKind, sci::kKind};

struct Parameter {
  const char* name;
  uint64_t* (*whole)(CardKind& kind);
  double* (*real)(CardKind& kind);
};

#define WHOLE(name, member)                                    \
  {                                                            \
    name, [](CardKind& kind) { return &kind.member; }, nullptr \
  }
#define REAL(name, member)                                     \
  {                                                            \
    name, nullptr, [](CardKind& kind) { return &kind.member; } \
  }
constexpr Parameter kParameters[] = {
    REAL("link.rate", link.rate),
    WHOLE("link.delay", link.delay_ns),
    WHOLE("link.overhead", link.overhead),
    WHOLE("link.buffers", link.buffers),
    WHOLE("link.window", link.window),
    WHOLE("link.timeout", link.timeout_ns),
    WHOLE("link.tries", link.tries),
    WHOLE("switch.latency", crossbar.latency_ns),
    WHOLE("switch.ports", crossbar.ports),
    WHOLE("bus.write", bus.write_ns),
    WHOLE("bus.read", bus.read_ns),
    WHOLE("bus.read_busy", bus.read_busy_ns),
    REAL("bus.burst_rate", bus.burst_rate),
    REAL("bus.dma_read_rate", bus.dma_read_rate),
    REAL("bus.dma_write_rate", bus.dma_write_rate),
    WHOLE("bus.dma_setup", bus.dma_setup_ns),
    WHOLE("bus.dma_burst", bus.dma_burst),
};
#undef WHOLE
#undef REAL

}  // namespace

std::span<const CardKind> card_kinds() { return kKinds; }

const CardKind* find_card_kind(std::string_view name, std::string* why) {
  std::string names;
  for (const CardKind& kind : kKinds) {
    if (name == kind.name) return &kind;
    names += std::string(names.empty() ? "" : ", ") + kind.name;
  }
  *why = format_text("there is no card '%.*s'; use one of %s", static_cast<int>(name.size()),
                     name.data(), names.c_str());
  return nullptr;
}

std::vector<std::string> parameter_names() {
  std::vector<std::string> names;
  for (const Parameter& parameter : kParameters) names.emplace_back(parameter.name);
  return names;
}

Status set_parameter(CardKind* kind, std::string_view name, std::string_view value,
                     std::string* why) {
  std::string names;
  for (const Parameter& parameter : kParameters) {
    names += std::string(names.empty() ? "" : ", ") + parameter.name;
    if (name != parameter.name) continue;
    double number = 0;
    const char* const end = value.data() + value.size();
    const auto result = std::from_chars(value.data(), end, number);
    const bool good =
        result.ec == std::errc() && result.ptr == end && number >= 0 && number <= 1e15;
    // Rates and sizes that nothing would ever pass.
    const bool zero = number == 0 && (parameter.real || name == "link.buffers" ||
                                      name == "switch.ports" || name == "bus.dma_burst");
    if (!good || zero || (name == "switch.ports" && number > kPortsMax)) {
      *why =
          format_text("%s is '%.*s'; use a number%s in ns, bytes, bytes/s or bit/s", parameter.name,
                      static_cast<int>(value.size()), value.data(), zero ? " above 0" : "");
      return Status::invalid;
    }
    if (parameter.real) {
      *parameter.real(*kind) = number;
    } else {
      *parameter.whole(*kind) = static_cast<uint64_t>(number);
    }
    return Status::ok;
  }
  *why = format_text("there is no parameter '%.*s'; use one of %s", static_cast<int>(name.size()),
                     name.data(), names.c_str());
  return Status::invalid;
}

}  // namespace torii::nic
