// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/outgoing.h"

#include <algorithm>

#include "core/multicast/tree.h"

namespace torii::multicast {

Outgoing::Outgoing(Channel& channel, const Identity& identity)
    : channel_(channel),
      identity_(identity),
      piece_bytes_((channel.largest_frame() - kHeaderBytes) / kGranule * kGranule),
      deaf_(identity.nodes) {}

// A copy for a node costs as much as a datagram for all. From some nodes on the tree is cheaper.
void Outgoing::choose_path() {
  const uint32_t most = std::max(2u, nodes() / 8);
  path_ = deaf_.count() == 0 ? Path::multicast : Path::degraded;
  if (deaf_.count() > most || (deaf_.count() && deaf_.count() + 1 == nodes())) path_ = Path::tree;
}

void Outgoing::set_deaf(uint32_t node, bool deaf) {
  if (node == self()) return;
  deaf ? deaf_.add(node) : deaf_.remove(node);
  choose_path();
}

void Outgoing::set_all_deaf() {
  for (uint32_t node = 0; node < nodes(); node++)
    if (node != self()) deaf_.add(node);
  choose_path();
}

void Outgoing::encode(Header header, HeaderBytes* out) const {
  header.node = static_cast<uint16_t>(self());
  multicast::encode(header, out);
}

bool Outgoing::to_one(uint32_t node, const Header& header, std::span<const std::byte> payload) {
  HeaderBytes head;
  encode(header, &head);
  const Datagram datagram{head, payload};
  return channel_.send(node, {&datagram, 1}) == 1;
}

bool Outgoing::to_all(Header header, std::span<const std::byte> payload) {
  note_use();
  if (path_ == Path::tree) return along_tree(header, payload);
  HeaderBytes head;
  encode(header, &head);
  const Datagram datagram{head, payload};
  bool taken = channel_.multicast({&datagram, 1}) == 1;
  header.flags |= kUnicast;
  for (uint32_t node = deaf_.next(0); node < nodes(); node = deaf_.next(node + 1))
    taken &= to_one(node, header, payload);
  return taken;
}

bool Outgoing::along_tree(Header header, std::span<const std::byte> payload) {
  header.flags |= kForward;
  bool taken = true;
  for (uint32_t i = 0; i < forwards(self()); i++)
    taken &= to_one(forward(self(), i), header, payload);
  return taken;
}

void Outgoing::pass_on(uint32_t origin, std::span<const std::byte> bytes) {
  const Datagram datagram{bytes.first(kHeaderBytes), bytes.subspan(kHeaderBytes)};
  for (uint32_t i = 0; i < forwards(origin); i++) channel_.send(forward(origin, i), {&datagram, 1});
}

uint32_t Outgoing::forwards(uint32_t origin) const {
  return Tree(nodes(), (self() + nodes() - origin) % nodes(), kForwardArity).children();
}

uint32_t Outgoing::forward(uint32_t origin, uint32_t index) const {
  const Tree tree(nodes(), (self() + nodes() - origin) % nodes(), kForwardArity);
  return (tree.child(index) + origin) % nodes();
}

}  // namespace torii::multicast
