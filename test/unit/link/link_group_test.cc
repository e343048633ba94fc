// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Lossy groups over the link: what somebody without the group's key can do, who hears and sends
// everything. It is a member of the group below the link, where there are no secrets.
#include <functional>
#include <set>

#include "core/link/group_header.h"
#include "core/trust/key_pair.h"
#include "unit/link/link_fixture.h"

namespace torii {
namespace {

using link::GroupHeader;
using link::kGroupHeaderBytes;

struct Frame {
  PeerId from;
  uint32_t sender;
  std::string bytes;
};

// One end, and what it hears.
struct Member final : Sink {
  explicit Member(const test::End::Open& open) {
    env.sink = this;
    env.counters = &counters;
    env.keys = &keys;
    env.members = &test::everybody();
    driver = open(env);
  }
  void packet(PeerId from, std::span<const std::byte> frame) override {
    Packet one{from, frame};
    packets({&one, 1});
  }
  void packets(std::span<Packet> all) override {
    for (const Packet& one : all) {
      heard.push_back({one.from,
                       one.sender,
                       {reinterpret_cast<const char*>(one.frame.data()), one.frame.size()}});
      if (on_frame) on_frame();
    }
  }
  void done(uint64_t cookie, Status status) override {
    EXPECT_EQ(status, Status::ok);
    dones.push_back(cookie);
  }
  void peer_down(PeerId, Status) override {}

  PeerId join(const LossyMember& membership) {
    PeerId group = kNoPeer;
    EXPECT_EQ(driver->lossy_groups()->join_lossy(membership, &group), Status::ok);
    return group;
  }
  bool send(PeerId to, const std::string& head, const std::string& body = {}, uint32_t pieces = 1) {
    std::vector<iovec> parts;
    const size_t each = (body.size() + pieces - 1) / pieces;
    for (size_t at = 0; at < body.size(); at += each)
      parts.push_back({const_cast<char*>(body.data()) + at, std::min(each, body.size() - at)});
    Tx tx;
    tx.peer = to;
    tx.head = head.data();
    tx.head_bytes = static_cast<uint32_t>(head.size());
    tx.pieces = parts.data();
    tx.piece_count = static_cast<uint32_t>(parts.size());
    tx.body_bytes = static_cast<uint32_t>(body.size());
    tx.cookie = ++cookies;
    return driver->send({&tx, 1}) == 1;
  }

  Counters counters;
  test::PlainKeys keys;
  DriverEnv env;
  std::unique_ptr<Driver> driver;
  std::vector<Frame> heard;
  std::vector<uint64_t> dones;
  uint64_t cookies = 0;
  std::function<void()> on_frame;
};

SecretKey secret_of(uint8_t seed) {
  SecretKey key{};
  key[5] = std::byte{seed};
  return key;
}

class LinkGroupTest : public test::LinkTest {
 protected:
  std::unique_ptr<Member> member(const std::string& faults = "") {
    return std::make_unique<Member>([&](const DriverEnv& env) {
      return wrap_link(
          [&](const DriverEnv& inner) {
            return wrap_fault([&](const DriverEnv& bare) { return open_sim(fabric, bare); }, inner,
                              plan_of(faults));
          },
          env);
    });
  }
  // Somebody on the network, and where the group is there.
  std::unique_ptr<Member> intruder() {
    return std::make_unique<Member>([&](const DriverEnv& env) { return open_sim(fabric, env); });
  }
  static PeerId intrude(Member& one, const SecretKey& key) {
    LossyMember below;
    EXPECT_TRUE(derive_key(key, "link  group below", &below.key));
    return one.join(below);
  }
  void run(std::initializer_list<Member*> all) {
    for (int i = 0; i < 20; i++, now_ns += 10000)
      for (Member* one : all) one->driver->poll(now_ns, 100);
  }
};

TEST_P(LinkGroupTest, MembersHearWhoHasSent) {
  const auto a = member(), b = member(), c = member();
  const SecretKey key = secret_of(1);
  const PeerId to = a->join({key, 7, 9, true}), at_b = b->join({key, 0, 9, true});
  const PeerId to_c = c->join({key, 8, 9, false});
  const std::string longest(a->driver->caps().mtu - 192, 'l');
  const auto say = [&](const std::string& head, const std::string& body, uint32_t pieces) {
    EXPECT_TRUE(a->send(to, head, body, pieces));
    run({a.get(), b.get(), c.get()});
  };
  say("head", "body", 1);
  say("", "", 1);
  say(std::string(192, 'h'), longest, 1);
  say("16", std::string(160, 'p'), 16);  // more pieces than the driver below takes
  ASSERT_EQ(b->heard.size(), 4u);
  EXPECT_EQ(b->heard[0].bytes, "headbody");
  EXPECT_EQ(b->heard[1].bytes, "");
  EXPECT_EQ(b->heard[2].bytes, std::string(192, 'h') + longest);
  EXPECT_EQ(b->heard[3].bytes, "16" + std::string(160, 'p'));
  for (const Frame& frame : b->heard) {
    EXPECT_EQ(frame.from, at_b);
    EXPECT_EQ(frame.sender, 7u);
  }
  EXPECT_EQ(a->dones.size(), 4u);
  EXPECT_TRUE(a->heard.empty() && c->heard.empty());
  ASSERT_TRUE(c->send(to_c, "of who does not hear"));
  run({a.get(), b.get(), c.get()});
  ASSERT_EQ(a->heard.size(), 1u);
  EXPECT_EQ(a->heard[0].sender, 8u);
}

TEST_P(LinkGroupTest, WhatIsForgedOrRepeatedIsDroppedAndCounted) {
  const auto a = member(), b = member(), x = intruder();
  const SecretKey key = secret_of(2);
  const PeerId to = a->join({key, 0, 4, true});
  b->join({key, 1, 4, true});
  const PeerId below = intrude(*x, key);
  ASSERT_TRUE(a->send(to, "a secret", "that is long enough to look for"));
  run({a.get(), b.get(), x.get()});
  ASSERT_EQ(x->heard.size(), 1u);
  ASSERT_EQ(b->heard.size(), 1u);
  const std::string frame = x->heard[0].bytes;
  EXPECT_EQ(frame.find("long enough") == std::string::npos, encrypted());
  EXPECT_EQ(frame.size(), overhead() + b->heard[0].bytes.size());

  const auto told = [&](const std::string& sent, uint64_t Counters::*counter) {
    const uint64_t before = b->counters.*counter;
    EXPECT_TRUE(x->send(below, "", sent));
    run({b.get(), x.get()});
    return b->counters.*counter - before;
  };
  EXPECT_EQ(told(frame, &Counters::link_duplicates), 1u);
  EXPECT_EQ(told(frame.substr(0, kGroupHeaderBytes - 1), &Counters::link_corrupt), 1u);
  std::string other = frame;
  other[kGroupHeaderBytes + 3] ^= 1;
  const auto damage = encrypted() ? &Counters::link_forged : &Counters::link_corrupt;
  EXPECT_EQ(told(other, damage), 1u);

  // A header of the intruder's own, with the checksum that belongs to it.
  GroupHeader header;
  ASSERT_TRUE(link::parse_group_header(std::as_bytes(std::span(frame)), &header));
  EXPECT_EQ(header.sender, 0u);
  EXPECT_EQ(header.number, 1u);
  EXPECT_EQ(header.sealed, encrypted());
  const auto with = [&](GroupHeader changed) {
    std::string out = frame;
    write_group_header(changed,
                       crc32c(0, out.data() + kGroupHeaderBytes, out.size() - kGroupHeaderBytes),
                       reinterpret_cast<std::byte*>(out.data()));
    return out;
  };
  GroupHeader changed = header;
  changed.number = 2;
  EXPECT_EQ(told(with(changed), &Counters::link_forged), 1u);
  changed = header;
  changed.sender = 2;
  EXPECT_EQ(told(with(changed), &Counters::link_forged), 1u) << "in another member's name";
  changed.sender = 4;
  EXPECT_EQ(told(with(changed), &Counters::link_forged), 1u) << "of no member";
  changed.sender = 1;
  EXPECT_EQ(told(with(changed), &Counters::link_group_foreign), 1u) << "in its own name";
  changed = header;
  changed.group++;
  EXPECT_EQ(told(with(changed), &Counters::link_group_foreign), 1u);
  changed = header;
  changed.sealed = !header.sealed;
  changed.number = 3;
  EXPECT_EQ(told(with(changed), &Counters::link_forged), 1u);
  changed.sealed = false;
  changed.whole = true;
  EXPECT_EQ(told(with(changed), &Counters::link_forged), 1u);
  EXPECT_EQ(b->heard.size(), 1u);

  // None of it keeps the next one out.
  ASSERT_TRUE(a->send(to, "the next one"));
  run({a.get(), b.get(), x.get()});
  EXPECT_EQ(b->heard.size(), 2u);
}

// A frame that is under the tag as a whole is copied.
TEST_P(LinkGroupTest, TagsMayCoverPayloads) {
  std::string why;
  ASSERT_EQ(param_set("link_tag_payload", "yes", "test", &why), Status::ok) << why;
  const auto a = member(), b = member(), x = intruder();
  const SecretKey key = secret_of(3);
  const PeerId to = a->join({key, 0, 2, true});
  b->join({key, 1, 2, true});
  const PeerId below = intrude(*x, key);
  ASSERT_TRUE(a->send(to, "head", "body"));
  run({a.get(), b.get(), x.get()});
  ASSERT_EQ(param_set("link_tag_payload", "no", "test", &why), Status::ok) << why;
  ASSERT_EQ(b->heard.size(), 1u);
  EXPECT_EQ(b->heard[0].bytes, "headbody");
  GroupHeader header;
  std::string frame = x->heard.at(0).bytes;
  ASSERT_TRUE(link::parse_group_header(std::as_bytes(std::span(frame)), &header));
  EXPECT_EQ(header.whole, !encrypted());
  header.number = 2;
  header.whole = false;
  write_group_header(header,
                     crc32c(0, frame.data() + kGroupHeaderBytes, frame.size() - kGroupHeaderBytes),
                     reinterpret_cast<std::byte*>(frame.data()));
  ASSERT_TRUE(x->send(below, "", frame));
  run({b.get(), x.get()});
  EXPECT_EQ(b->counters.link_forged, 1u);
}

TEST_P(LinkGroupTest, WhatIsLostOrDoubledIsLeftToOthers) {
  const auto a = member("refuse=30%,seed=3");
  const auto b = member("drop=20%,duplicate=20%,reorder=20%,corrupt=10%,seed=5");
  const SecretKey key = secret_of(4);
  const PeerId to = a->join({key, 0, 2, true});
  b->join({key, 1, 2, true});
  unsigned refused = 0;
  for (int i = 0; i < 400;) {
    if (a->send(to, "frame " + std::to_string(i), std::string(200, 'x'))) {
      i++;
    } else {
      refused++;
    }
    run({a.get(), b.get()});
  }
  EXPECT_GT(refused, 50u);
  EXPECT_EQ(a->dones.size(), 400u);
  std::set<std::string> different;
  for (const Frame& frame : b->heard) different.insert(frame.bytes);
  EXPECT_EQ(different.size(), b->heard.size());
  EXPECT_GT(b->heard.size(), 200u);
  EXPECT_LT(b->heard.size(), 380u);
  EXPECT_GT(b->counters.link_duplicates, 20u);
  EXPECT_GT(b->counters.link_corrupt + b->counters.link_forged, 10u);
  EXPECT_EQ(a->counters.link_retransmits, 0u);
}

TEST_P(LinkGroupTest, AKeyIsGoodForOneJoin) {
  const auto a = member();
  PeerId group = a->join({secret_of(5), 0, 2, true}), again;
  LossyGroups* const groups = a->driver->lossy_groups();
  EXPECT_EQ(groups->join_lossy({secret_of(5), 1, 2, true}, &again), Status::invalid);
  a->driver->leave(group);
  EXPECT_EQ(groups->join_lossy({secret_of(5), 1, 2, true}, &again), Status::invalid);
  EXPECT_EQ(groups->join_lossy({secret_of(6), 1, 2, true}, &again), Status::ok);
}

TEST_P(LinkGroupTest, AnUpcallMayLeave) {
  const auto a = member(), b = member();
  const SecretKey key = secret_of(7);
  const PeerId to = a->join({key, 0, 2, true}), at_b = b->join({key, 1, 2, true});
  b->on_frame = [&] { b->driver->leave(at_b); };
  for (int i = 0; i < 5; i++) ASSERT_TRUE(a->send(to, "frame"));
  run({a.get(), b.get()});
  EXPECT_EQ(b->heard.size(), 1u);
}

TEST(LinkGroupHeader, TravelsAsDrawn) {
  std::byte bytes[kGroupHeaderBytes] = {};
  link::write_group_header({0x0102030405060708, 0x11121314, 0x21222324, true, false}, 0, bytes);
  const uint8_t drawn[] = {0x4c, 0x47, 1, 0x21, 0,    0,    0,    0,    8,    7,    6,    5,
                           4,    3,    2, 1,    0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21};
  for (size_t i = 0; i < sizeof(drawn); i++) {
    if (i < 4 || i >= 8) {
      EXPECT_EQ(static_cast<uint8_t>(bytes[i]), drawn[i]) << i;
    }
  }
  EXPECT_TRUE(link::checksum_is_right(bytes));
  GroupHeader header;
  ASSERT_TRUE(link::parse_group_header(bytes, &header));
  EXPECT_EQ(header.number, 0x0102030405060708u);
  EXPECT_EQ(header.sender, 0x11121314u);
  EXPECT_EQ(header.group, 0x21222324u);
  EXPECT_TRUE(header.whole);
  EXPECT_FALSE(header.sealed);
  for (const auto& [at, value] : {std::pair<size_t, uint8_t>{0, 0x4d},
                                  {1, 0},
                                  {2, 2},
                                  {3, 0x22},
                                  {3, 0x01 | 0x40},
                                  {3, 0xa1}}) {
    std::byte other[kGroupHeaderBytes];
    std::copy_n(bytes, sizeof(bytes), other);
    other[at] = std::byte{value};
    EXPECT_FALSE(link::parse_group_header(other, &header)) << at << ", " << int(value);
  }
}

TORII_WITH_CIPHERS(LinkGroupTest);

}  // namespace
}  // namespace torii
