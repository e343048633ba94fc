// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/driver.h"

namespace torii {

Status Driver::reg(void*, uint64_t, uint32_t, Region*) { return Status::unsupported; }
void Driver::dereg(Region&) {}
Status Driver::import(PeerId, std::span<const std::byte>, uint32_t*) { return Status::unsupported; }
void Driver::drop(uint32_t) {}
Status Driver::put(const Rma&) { return Status::unsupported; }
Status Driver::get(const Rma&) { return Status::unsupported; }
Status Driver::join(std::span<const std::byte>, PeerId*) { return Status::unsupported; }
void Driver::leave(PeerId) {}
Status Driver::arm(int*) { return Status::unsupported; }

}  // namespace torii
