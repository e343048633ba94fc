// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/check/check_names.h"

#include <algorithm>
#include <map>

#include "core/base/log.h"

namespace torii::check {
namespace {

std::string join(const std::set<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string mebibytes(uint64_t bytes) {
  return format_text("%llu MiB", static_cast<unsigned long long>(bytes >> 20));
}

}  // namespace

std::string microseconds(uint64_t ns) {
  return ns ? format_text("%.1f", static_cast<double>(ns) / 1000) : "-";
}

Names::Names(const std::vector<Participant>& all, const Plan& plan) : all_(all), plan_(plan) {
  std::map<std::string, unsigned> met;
  for (const auto& ranks : plan.places) {
    const Participant& first = all[ranks[0]];
    const std::string name = first.name.empty() ? first.facts.host : first.name;
    const unsigned number = ++met[name];  // containers of one host may share its name
    places_.push_back(number == 1 ? name : name + "/" + std::to_string(number));
  }
  std::map<std::string, unsigned> asked;
  for (const Participant& one : all) asked[one.name]++;
  for (uint32_t rank = 0; rank < all.size(); rank++) {
    const uint32_t place = plan.place_of(rank);
    const std::string rank_text = "rank " + std::to_string(rank);
    if (place == kNobody) {
      const std::string& name = all[rank].name;
      processes_.push_back(name.empty()      ? rank_text
                           : asked[name] > 1 ? rank_text + " on " + name
                                             : name);
    } else {
      processes_.push_back(plan.places[place].size() > 1 ? rank_text + " on " + places_[place]
                                                         : places_[place]);
    }
  }
}

Table Names::table() const {
  Table table;
  table.name = "nodes";
  table.columns = {"node",
                   "processes",
                   "cores",
                   "cross-memory attach",
                   "/dev/shm free",
                   "receive buffer",
                   "interfaces and their MTU"};
  for (size_t i = 0; i < places_.size(); i++) {
    const Facts& facts = all_[plan_.places[i][0]].facts;
    std::string interfaces;
    for (const Interface& one : facts.interfaces) {
      interfaces += (interfaces.empty() ? "" : ", ") + one.name + " " + std::to_string(one.mtu);
      if (!one.up || !one.carrier) interfaces += one.up ? " (no carrier)" : " (down)";
    }
    table.rows.push_back({places_[i], std::to_string(plan_.places[i].size()),
                          std::to_string(facts.processors),
                          facts.attach == "allowed" ? "allowed" : "refused",
                          facts.shared_bytes ? mebibytes(facts.shared_free) : "none",
                          format_text("%u KiB", facts.receive_buffer >> 10), interfaces});
  }
  return table;
}

std::string Names::list(const std::vector<std::string>& words, size_t most) {
  std::string out;
  for (size_t i = 0; i < std::min(words.size(), most); i++) out += (i ? ", " : "") + words[i];
  if (words.size() > most) out += format_text(" and %zu more", words.size() - most);
  return out;
}

void Summary::add(const std::string& driver, const RailSeen& rail, uint32_t sent,
                  uint32_t arrived) {
  if (rail.answered == 0) return;
  drivers_.insert(driver);
  if (!rail.interface.empty()) interfaces_.insert(rail.interface);
  if (rail.mtu) mtus_.insert(rail.mtu);
  least_ns_ = least_ns_ ? std::min(least_ns_, rail.median_ns) : rail.median_ns;
  most_ns_ = std::max(most_ns_, rail.median_ns);
  sent_ += sent;
  arrived_ += arrived;
}

std::string Summary::text() const {
  if (drivers_.empty()) return "no way";
  std::string out = "by " + join(drivers_);
  if (!interfaces_.empty()) out += " (" + join(interfaces_) + ")";
  out += ", round trip " + microseconds(least_ns_);
  if (most_ns_ > least_ns_) out += " to " + microseconds(most_ns_);
  out += " us";
  if (sent_)
    out += format_text(", %.2f %% of %llu packets lost",
                       100 * (1 - static_cast<double>(arrived_) / static_cast<double>(sent_)),
                       static_cast<unsigned long long>(sent_));
  if (!mtus_.empty()) out += ", path MTU " + std::to_string(*mtus_.begin());
  if (mtus_.size() > 1) out += " to " + std::to_string(*mtus_.rbegin());
  return out;
}

}  // namespace torii::check
