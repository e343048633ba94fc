// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The HUB: a crossbar with an input queue, an output register and a ready bit for each port, a
// status table, and a controller that carries out commands.
//
// An item is the unit on a fibre: commands, then perhaps a packet, and behind it a command that
// closes. A HUB takes the commands that are its own from the front of an item and passes the rest
// to all outputs that the input is connected to. An item that opens with retry, or has a packet,
// waits in the input queue. All others are carried out at once, and take no room: the port has
// circuits for them.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "nic/crossbar.h"
#include "nic/nectar/regs.h"

namespace torii::nic::nectar {

using Bytes = std::vector<std::byte>;

struct HubCommand {
  uint8_t opcode, hub, output;
};
static_assert(sizeof(HubCommand) == kCommandBytes);
void add_command(Bytes* to, Opcode opcode, uint32_t hub = kEveryHub, uint32_t output = 0);
Bytes one_command(Opcode opcode, uint32_t hub = kEveryHub, uint32_t output = 0);
// Appends a packet of these parts and their checksum.
void add_packet(Bytes* to, std::initializer_list<std::span<const std::byte>> parts);

inline constexpr size_t kFrontBytes = 3;  // before the data of a packet
inline constexpr size_t kSumBytes = 4;    // at their end

// The parts of an item, which has to outlive this. All is inside, whatever the bytes are.
struct Item {
  explicit Item(const Bytes& bytes);
  bool has(Opcode opcode) const { return opcodes >> opcode & 1; }

  std::vector<HubCommand> commands;  // in front
  uint32_t opcodes = 0;              // of these and of one behind the packet, a bit each
  bool has_packet = false;
  std::span<const std::byte> data;  // of the packet, with their checksum
};

// An answer of a HUB.
struct HubReply {
  uint8_t hub, output;
  uint32_t status;  // StatusBits
};
bool is_signal(const Bytes& bytes, Opcode opcode);
HubReply reply_of(const Bytes& bytes);

std::unique_ptr<Switch> make_hub(Engine& engine, unsigned number, const CrossbarOptions& options);

}  // namespace torii::nic::nectar
