// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The cards that there are, and the parameters that can be set.
#include <algorithm>
#include <type_traits>
#include <variant>

#include "core/base/log.h"
#include "core/base/parse.h"
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

// Integers, and rates.
struct Parameter {
  const char* name;
  std::variant<uint64_t*, double*> value;
};

std::vector<Parameter> parameters_of(CardKind& kind) {
  LinkOptions& link = kind.link;
  BusOptions& bus = kind.bus;
  return {{"link.rate", &link.rate},
          {"link.delay", &link.delay_ns},
          {"link.overhead", &link.overhead},
          {"link.buffers", &link.buffers},
          {"link.window", &link.window},
          {"link.timeout", &link.timeout_ns},
          {"link.tries", &link.tries},
          {"switch.latency", &kind.crossbar.latency_ns},
          {"switch.ports", &kind.crossbar.ports},
          {"bus.write", &bus.write_ns},
          {"bus.read", &bus.read_ns},
          {"bus.read_busy", &bus.read_busy_ns},
          {"bus.burst_rate", &bus.burst_rate},
          {"bus.dma_read_rate", &bus.dma_read_rate},
          {"bus.dma_write_rate", &bus.dma_write_rate},
          {"bus.dma_setup", &bus.dma_setup_ns},
          {"bus.dma_burst", &bus.dma_burst}};
}

template <typename Named>
std::string names_of(const Named& all) {
  std::string out;
  for (const auto& one : all) out.append(out.empty() ? "" : ", ").append(one.name);
  return out;
}

}  // namespace

std::span<const CardKind> card_kinds() { return kKinds; }

const CardKind* find_card_kind(std::string_view name, std::string* why) {
  for (const CardKind& kind : kKinds)
    if (name == kind.name) return &kind;
  *why = format_text("there is no card '%.*s'; use one of %s", static_cast<int>(name.size()),
                     name.data(), names_of(kKinds).c_str());
  return nullptr;
}

std::vector<std::string> parameter_names() {
  CardKind kind = kKinds[0];
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters_of(kind)) names.emplace_back(parameter.name);
  return names;
}

Status set_parameter(CardKind* kind, std::string_view name, std::string_view value,
                     std::string* why) {
  const std::vector<Parameter> parameters = parameters_of(*kind);
  const auto it = std::ranges::find(parameters, name, &Parameter::name);
  if (it == parameters.end()) {
    *why = format_text("there is no parameter '%.*s'; use one of %s", static_cast<int>(name.size()),
                       name.data(), names_of(parameters).c_str());
    return Status::invalid;
  }
  double number = 0;
  const auto* const real = std::get_if<double*>(&it->value);
  // Rates and sizes that nothing would ever pass.
  const bool is_positive =
      real || name == "link.buffers" || name == "switch.ports" || name == "bus.dma_burst";
  if (!parse_whole(value, &number) || !(number >= 0 && number <= 1e15) ||
      (is_positive && number == 0) || (name == "switch.ports" && number > kPortsMax)) {
    *why = format_text("%s is '%.*s'; use a number%s in ns, bytes, bytes/s or bit/s", it->name,
                       static_cast<int>(value.size()), value.data(),
                       is_positive && number == 0 ? " above 0" : "");
    return Status::invalid;
  }
  std::visit([&](auto* to) { *to = static_cast<std::remove_pointer_t<decltype(to)>>(number); },
             it->value);
  return Status::ok;
}

}  // namespace torii::nic
