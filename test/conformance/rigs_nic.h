// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "conformance/kit.h"
#include "nic/fabric.h"

namespace torii::kit {

using OpenOnCard = std::function<std::unique_ptr<Driver>(std::unique_ptr<nic::Card> card,
                                                         const DriverEnv& env, std::string* why)>;

// A driver on a fabric of its own, whose time is that of the case. The card is the part of the name
// before a slash. `*last`, if not null, becomes the one of the last case.
Rig nic_rig(const std::string& name, nic::FabricOptions options, uint64_t seed, OpenOnCard open,
            std::shared_ptr<nic::Fabric>* last = nullptr);

}  // namespace torii::kit
