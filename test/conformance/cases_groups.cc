// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Lossy groups: what is sent often enough arrives, at members that hear, and nowhere else.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "conformance/kit.h"
#include "core/base/little_endian.h"
#include "core/base/random.h"

namespace torii::kit {
namespace {

// A key of nobody else on this network.
SecretKey new_key() {
  static Random random(real_ns() ^ static_cast<uint64_t>(getpid()) << 40);
  SecretKey key;
  for (size_t at = 0; at < key.size(); at += 8)
    store_little<uint64_t>(key.data() + at, random.next());
  return key;
}

// Endpoints that know each other; all of the first ones hear, the last of them only sends.
struct Club {
  Club(Bed& bed_in, uint32_t size) : bed(bed_in) {
    for (uint32_t i = 0; i < size; i++) nodes.push_back(&bed.node());
    if (!nodes[0]->driver().lossy_groups()) return;
    for (Node* from : nodes)
      for (Node* to : nodes)
        if (from != to) from->connect(*to);
    for (uint32_t i = 0; i < size; i++)
      groups.push_back(join(*nodes[i], {key, i, size, i + 1 < size}));
    bed.settle();
  }
  static PeerId join(Node& node, const LossyMember& membership) {
    PeerId group = kNoPeer;
    EXPECT_EQ(node.driver().lossy_groups()->join_lossy(membership, &group), Status::ok);
    return group;  // kNoPeer: refused
  }

  static void leave(Node& node, PeerId group) {
    if (group != kNoPeer) node.driver().leave(group);
  }

  // Sends the frame until these have it. Its memory is another one's as soon as it is taken.
  bool reaches(uint32_t from, const std::string& frame, const std::vector<uint32_t>& members) {
    const auto has_it = [&](uint32_t member) {
      return std::ranges::any_of(nodes[member]->frames, [&](const Node::Frame& one) {
        return one.bytes == frame && one.from == groups[member];
      });
    };
    return in_time(
        [&] {
          std::string copy = frame;
          send(from, copy);
          copy.assign(copy.size(), 'x');
        },
        [&] { return std::ranges::all_of(members, has_it); });
  }
  // Sends again and again until all is there; false: it never comes.
  template <typename Send, typename There>
  bool in_time(Send send_again, There there) {
    for (int tries = 0; tries < 200; tries++) {
      send_again();
      int steps = 20;
      bed.run([&] { return there() || steps-- == 0; });
      if (there()) return true;
    }
    return false;
  }
  bool send(uint32_t from, std::string& frame) {
    const size_t head = std::min<size_t>(frame.size(), 8), all = frame.size() - head;
    const bool cut = nodes[from]->caps().pieces_max > 1;
    const size_t first = cut ? all / 2 : all;
    const iovec pieces[] = {{frame.data() + head, first},
                            {frame.data() + head + first, all - first}};
    Tx tx;
    tx.peer = groups[from];
    tx.head = frame.data();
    tx.head_bytes = static_cast<uint32_t>(head);
    tx.pieces = pieces;
    tx.piece_count = cut ? 2 : 1;
    tx.body_bytes = static_cast<uint32_t>(frame.size() - head);
    tx.cookie = nodes[from]->new_cookie();
    return nodes[from]->send(tx);
  }
  void forget() {
    bed.settle();
    for (Node* node : nodes) node->frames.clear();
  }

  Bed& bed;
  const SecretKey key = new_key();
  std::vector<Node*> nodes;
  std::vector<PeerId> groups;  // as each names it; empty: the driver has none
};

void lossy_groups_reach_their_members(Bed& bed) {
  Club club(bed, 4);
  if (club.groups.empty()) return;
  Node& outsider = bed.node();
  const PeerId other = Club::join(outsider, {new_key(), 1, 2, true});
  const size_t mtu = outsider.caps().mtu;
  uint64_t number = 0;
  for (const size_t size : {size_t{9}, size_t{10}, size_t{300}, mtu - 1, mtu}) {
    std::string frame = pattern(++number, size);
    frame[0] = 'L';
    EXPECT_TRUE(club.reaches(0, frame, {1, 2})) << "a member misses a frame of " << size;
  }
  bed.settle();
  EXPECT_TRUE(club.nodes[0]->pending.empty()) << "rule 6: a group's cookie";
  EXPECT_TRUE(club.nodes[0]->frames.empty()) << "a frame to a group came back to its sender";
  EXPECT_TRUE(club.nodes[3]->frames.empty()) << "a member hears that wants only to send";
  EXPECT_TRUE(outsider.frames.empty()) << "a frame reached a group with another key";
  for (const uint32_t i : {1, 2})
    for (const Node::Frame& frame : club.nodes[i]->frames) {
      EXPECT_EQ(frame.from, club.groups[i]) << "a frame to a group does not come from it";
      EXPECT_TRUE(frame.sender == 0 || frame.sender == kNoSender) << frame.sender;
    }
  club.forget();
  EXPECT_TRUE(club.reaches(3, "L of one that only sends", {0, 1, 2}));
  Club::leave(*club.nodes[2], club.groups[2]);
  Club::leave(outsider, other);
  club.forget();
  EXPECT_TRUE(club.reaches(3, "L after one has left", {0, 1}));
  bed.settle();
  EXPECT_TRUE(club.nodes[2]->frames.empty()) << "leave() had no effect";
}

// Frames of one length in a row may travel as one. A driver that names senders has seen to
// repetitions.
void lossy_batches_arrive(Bed& bed) {
  constexpr size_t kFrames = 12;
  Club club(bed, 3);
  if (club.groups.empty()) return;
  Node& a = *club.nodes[0];
  const size_t size = std::min<size_t>(a.caps().mtu, 1000);
  uint64_t sent = 0;
  std::set<std::string> bodies;
  const auto send = [&] {
    std::vector<std::string> frames;
    std::vector<Tx> batch(kFrames);
    for (size_t i = 0; i < kFrames; i++) {
      frames.push_back("L" + std::to_string(1000000 + sent + i));
      frames.back().resize(size, static_cast<char>('a' + i));
    }
    std::vector<iovec> pieces;
    for (size_t i = 0; i < kFrames; i++) {
      pieces.push_back({frames[i].data() + 8, size - 8});
      batch[i].peer = club.groups[0];
      batch[i].head = frames[i].data();
      batch[i].head_bytes = 8;
      batch[i].piece_count = 1;
      batch[i].body_bytes = static_cast<uint32_t>(size - 8);
      batch[i].cookie = a.new_cookie();
    }
    for (size_t i = 0; i < kFrames; i++) batch[i].pieces = &pieces[i];
    sent += a.send_batch(batch);
  };
  const auto there = [&] {  // one of each place in a batch
    for (const Node::Frame& frame : club.nodes[1]->frames)
      if (frame.bytes.size() == size) bodies.insert(frame.bytes.substr(8));
    return bodies.size() >= kFrames;
  };
  EXPECT_TRUE(club.in_time(send, there)) << "a frame of a batch to a group never arrives";
  bed.settle();
  std::set<std::string> seen;
  for (const Node::Frame& frame : club.nodes[1]->frames) {
    if (frame.sender == kNoSender) continue;
    EXPECT_EQ(frame.sender, 0u);
    EXPECT_TRUE(seen.insert(frame.bytes).second) << "a frame to a group is handed up again";
  }
  EXPECT_LE(seen.size(), sent);
}

void bad_memberships_are_refused(Bed& bed) {
  Node& a = bed.node();
  LossyGroups* const groups = a.driver().lossy_groups();
  if (!groups) return;
  PeerId group;
  EXPECT_EQ(groups->join_lossy({new_key(), 2, 2, true}, &group), Status::invalid) << "a number";
  EXPECT_EQ(groups->join_lossy({new_key(), 0, 0, true}, &group), Status::invalid) << "no members";
  EXPECT_EQ(groups->join_lossy({new_key(), 0, LossyGroups::kMembersMax + 1, true}, &group),
            Status::invalid)
      << "too many members";
  std::vector<PeerId> joined;
  for (size_t i = 0; i < LossyGroups::kGroupsMax; i++)
    joined.push_back(Club::join(a, {new_key(), 0, 2, i % 2 == 0}));
  EXPECT_EQ(std::set(joined.begin(), joined.end()).size(), joined.size()) << "one number for two";
  if (groups->join_lossy({new_key(), 0, 2, true}, &group) == Status::ok) {
    ADD_FAILURE() << "one group more than kGroupsMax";
    a.driver().leave(group);
  }
  Club::leave(a, joined[0]);
  const SecretKey key = new_key();
  joined[0] = Club::join(a, {key, 0, 2, true});
  Club::leave(a, joined[1]);
  EXPECT_EQ(groups->join_lossy({key, 1, 2, true}, &group), Status::invalid) << "a member already";
  for (size_t i = 0; i < joined.size(); i++)
    if (i != 1) Club::leave(a, joined[i]);
}

constexpr Case kGroupTable[] = {
    {"lossy_groups_reach_their_members", "LossyGroups", 0, true, lossy_groups_reach_their_members},
    {"lossy_batches_arrive", "LossyGroups: batches, repetition", 0, true, lossy_batches_arrive},
    {"bad_memberships_are_refused", "LossyGroups: bounds", 0, false, bad_memberships_are_refused},
};

}  // namespace

const std::span<const Case> kGroupCases = kGroupTable;

}  // namespace torii::kit
