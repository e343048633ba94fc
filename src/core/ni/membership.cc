// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/ni/membership.h"

#include <algorithm>

#include "core/protocol/protocol.h"

namespace torii {

std::vector<std::byte> Directories::find(const Who& who) const {
  std::vector<std::byte> out(Protocol::kAddressBytes);
  if (!may_ask_ || (who.job == job_ && who.rank >= size_)) return {};
  for (const auto& [find, arg] : all_) {
    const size_t bytes = find(arg, who.job, who.rank, out.data(), out.size());
    if (bytes == 0 || bytes > out.size()) continue;
    out.resize(bytes);
    return out;
  }
  return {};
}

// A member's address is asked for once: it has one for as long as it lives.
bool Membership::admits(const Who& who, std::span<const std::byte> address) {
  auto known = known_.find({who.job, who.rank});
  if (known == known_.end()) {
    const std::vector<std::byte> all = directories_.find(who);
    const auto own = Protocol::address_for(driver_, all);
    if (!own.empty())
      known =
          known_.emplace(std::pair(who.job, who.rank), std::vector(own.begin(), own.end())).first;
  }
  if (known != known_.end()) return std::ranges::equal(known->second, address);
  return who.job != self_.job && directories_.everybody_is_welcome();
}

}  // namespace torii
