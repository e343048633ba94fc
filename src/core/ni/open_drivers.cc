// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Which drivers an interface opens, and why it does without the others.
#include "core/base/container.h"
#include "core/base/hardware.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/link/link.h"
#include "core/ni/ni.h"
#include "core/trust/seal.h"

namespace torii {

// Why processes of this node may not share memory; empty: they will.
std::string Ni::why_apart() const {
  if (config_.size < 2) return "";
  for (const std::string& refused : refused_)
    if (!is_network(refused.substr(0, refused.find(':')))) return refused;
  if (!launcher_is_outside()) return "";
  return "the launcher is in another PID namespace, so others of the job may be in containers of "
         "their own";
}

// A job on one node that shares memory has no use for a network: asking it would cost time, and its
// port would be open to all.
bool Ni::needless(const std::string& name) const {
  if (config_.size > config_.local_size || param_is_set("drivers") || !is_network(name))
    return false;
  const std::string apart = why_apart();
  if (!apart.empty() && params().report)
    print_line("torii report: rank %u: %s is tried, although the job is on one node: %s",
               config_.self.rank, name.c_str(), apart.c_str());
  return apart.empty();
}

bool Ni::open_drivers(std::string* why) {
  Cipher cipher;
  if (!find_cipher(params().link_cipher, &cipher, why)) {
    *why = "TORII_LINK_CIPHER: " + *why;
    return false;
  }
  const std::vector<std::string> names = chosen_drivers();
  for (const std::string& name : names) {  // a slip of the pen must not cost a driver unnoticed
    if (check_driver(name, why)) continue;
    *why = "TORII_DRIVERS=" + params().drivers + ": " + *why;
    return false;
  }
  std::string reasons;
  for (const std::string& name : names) {
    if (needless(name)) {
      left_out_ += format_text(
          "; %s is not open, because the job is on one node: name it in "
          "TORII_DRIVERS to have it",
          name.c_str());
      continue;
    }
    DriverEnv env;
    env.sink = protocol_.next_sink();
    env.counters = &counters_;
    env.local_peers = config_.local_size;
    env.take_turns = wait_policy_.scarce;
    env.emulated_node = emulated_node(config_.self.rank, config_.size);
    env.clock = config_.clock;
    env.clock_context = config_.clock_context;
    std::string reason;
    std::unique_ptr<Driver> driver;
    if (admit_members(name, &env, &reason)) driver = open_with_link(name, env, &reason);
    if (driver) {
      on_network_ |= is_network(name);
      protocol_.add_driver(name, std::move(driver));
    } else {
      refused_.push_back(reason.starts_with(name + ":") ? reason : name + ": " + reason);
      // A cipher is asked of Torii, and other libraries have none.
      const bool asked = param_is_set("drivers") || param_is_set("link_cipher");
      if (!asked && find_driver(name)->has_hardware && !rdma_devices().empty())
        missed_network_ = reason;
      reasons += " " + refused_.back() + ";";
    }
  }
  if (on_network_ && params().report)
    print_line("torii report: rank %u: encryption between nodes: %s", config_.self.rank,
               cipher_name(cipher));
  if (!protocol_.drivers().empty()) return true;
  *why = "no driver could be opened (TORII_DRIVERS=" + params().drivers + "):" + reasons;
  return false;
}

// Lets drivers for networks on which others can send know the job. One key pair serves them all.
bool Ni::admit_members(const std::string& driver, DriverEnv* env, std::string* why) {
  const Who self{config_.self.job, config_.self.rank};
  memberships_.push_back(std::make_unique<Membership>(self, driver, directories_));
  env->members = memberships_.back().get();
  if (!is_network(driver)) return true;
  if (!keys_) keys_ = KeyPair::draw(why);
  env->keys = keys_.get();
  return keys_ != nullptr;
}

}  // namespace torii
