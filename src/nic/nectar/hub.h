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

#include <memory>
#include <span>
#include <vector>

#include "nic/crossbar.h"
#include "nic/nectar/regs.h"
#include "nic/topology.h"

namespace torii::nic::nectar {

using Bytes = std::vector<std::byte>;
inline void append(Bytes* to, std::span<const std::byte> more) {
  to->insert(to->end(), more.begin(), more.end());
}

// Signals begin with one, too, and so does a packet, with its length in place of the parameters.
struct HubCommand {
  uint8_t opcode, hub, output;
};
static_assert(sizeof(HubCommand) == kCommandBytes);
Bytes one_command(Opcode opcode, SwitchOutput at = {kEveryHub, 0});
// Appends a packet of these data and their checksum, and perhaps a command that closes.
void add_packet(Bytes* to, std::span<const std::byte> data, bool closes);

inline constexpr size_t kSumBytes = 4;  // at the end of a packet
inline constexpr size_t kReplyBytes = kCommandBytes + sizeof(uint32_t);

// The parts of an item, which has to outlive this. All is inside, whatever the bytes are.
struct Item {
  explicit Item(std::span<const std::byte> bytes);
  bool has(Opcode opcode) const { return opcodes >> opcode & 1; }

  std::vector<HubCommand> commands;  // in front
  std::span<const std::byte> rest;   // behind these
  uint32_t opcodes = 0;              // of these and of one behind the packet, a bit each
  uint8_t signal = 0;                // kReadySignal or kReply, with StatusBits behind it; 0: none
  bool has_packet = false;
  std::span<const std::byte> data;  // of the packet, with their checksum
};

std::unique_ptr<Switch> make_hub(Engine& engine, unsigned number, const CrossbarOptions& options);

}  // namespace torii::nic::nectar
