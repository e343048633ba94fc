// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The processes that may talk to this one over one of its drivers: the members of its job, as
// directories of the faces know them, and anybody while the application waits for strangers.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/torii.h"
#include "drivers/trust.h"

namespace torii {

// The directories that the faces of an interface add. All its drivers share them; the interface's
// lock guards them.
class Directories {
 public:
  explicit Directories(uint64_t job, uint32_t size) : job_(job), size_(size) {}

  // As torii_add_directory() and torii_remove_directory().
  void add(torii_find_t find, void* arg) { all_.push_back({find, arg}); }
  void remove(torii_find_t find, void* arg) { std::erase(all_, std::pair(find, arg)); }
  // As torii_welcome().
  void welcome(bool anybody) { welcome_ += anybody ? 1 : -1; }
  bool everybody_is_welcome() const { return welcome_ > 0; }
  // Not in Torii's own thread: a launcher's library may serve one thread only.
  void allow_questions(bool allowed) { may_ask_ = allowed; }
  bool may_ask() const { return may_ask_; }
  // The address that the process has published; empty: it is not known.
  std::vector<std::byte> find(const Who& who) const;

 private:
  const uint64_t job_;
  const uint32_t size_;
  int welcome_ = 0;
  bool may_ask_ = true;
  std::vector<std::pair<torii_find_t, void*>> all_;
};

class Membership final : public Members {
 public:
  Membership(const Who& self, std::string driver, const Directories& directories)
      : self_(self), driver_(std::move(driver)), directories_(directories) {}

  Who self() const override { return self_; }
  bool admits(const Who& who, std::span<const std::byte> address) override;
  // Other jobs may be welcome later.
  bool excludes(const Who& who) const override {
    return who.job == self_.job && directories_.may_ask();
  }

 private:
  const Who self_;
  const std::string driver_;
  const Directories& directories_;
  std::map<std::pair<uint64_t, uint32_t>, std::vector<std::byte>> known_;  // addresses, by Who
};

}  // namespace torii
