// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/driver.h"

#include "core/base/copy.h"
#include "drivers/interfaces.h"

namespace torii {

Status Driver::reg(void*, uint64_t, uint32_t, Region*) { return Status::unsupported; }
void Driver::dereg(Region&) {}
Status Driver::import(PeerId, std::span<const std::byte>, uint32_t*) { return Status::unsupported; }
void Driver::drop(uint32_t) {}
Status Driver::put(const Rma&) { return Status::unsupported; }
Status Driver::get(const Rma&) { return Status::unsupported; }
Status Driver::atomic(const RemoteAtomic&) { return Status::unsupported; }
void Driver::take(void* to, const std::byte* from, size_t bytes) { copy_bytes(to, from, bytes); }
Status Driver::alloc(uint64_t, uint64_t, void**) { return Status::unsupported; }
void Driver::dealloc(void*) {}
Status Driver::join(std::span<const std::byte>, PeerId*) { return Status::unsupported; }
void Driver::leave(PeerId) {}
Status Driver::arm(int*) { return Status::unsupported; }

std::string Paths::text(PeerId) const { return {}; }
std::string Paths::trouble(PeerId) const { return {}; }
uint32_t Paths::rails(PeerId) const { return 1; }
Life Paths::life(PeerId) { return Life::unknown; }
bool Paths::delivered() const { return true; }
std::vector<PeerAddress> Paths::addresses(PeerId) const { return {}; }

bool Advice::near(PeerId, const void*) const { return false; }
bool Advice::sooner_sent(uint32_t) const { return false; }
void Advice::look(PeerId) {}

bool RegisteredMemory::current(const Region&) const { return false; }

}  // namespace torii
