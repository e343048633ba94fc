// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// An announced message, seen from its source and from its target: each state that it can be in, and
// each thing that can happen there. A row of a table is a state, a column an event. A cell says
// what the event does:
//   -   nothing that the owner learns: it goes on, or waits for more
//   o   over, with all bytes
//   d   over: the target had no place for it
//   x   no correct peer does that: it is cut off, and the owner learns that it died
// Whatever happens, the message ends once, at the latest with its peer, and leaves nothing behind.
#include <functional>
#include <set>

#include "unit/protocol/protocol_kit.h"

namespace torii {
namespace {

using namespace test;
using wire::Kind;

constexpr uint64_t kAnnounced = 40000, kHalf = 20000;

class Rendezvous : public ProtocolFrames {
 protected:
  struct Event {
    const char* name;
    std::function<void(uint64_t op)> happens;
  };
  using Table = std::vector<std::pair<std::string, std::string>>;  // states, cells

  // The message is in that state; its handle.
  virtual uint64_t reach(const std::string& state) = 0;

  // `gaps`: the events before which the cells of a row have a space.
  void expect(const Table& table, const std::vector<Event>& events, const std::set<size_t>& gaps) {
    for (const auto& [state, cells] : table) {
      std::string found;
      for (size_t i = 0; i < events.size(); ++i) {
        SCOPED_TRACE(state + ": " + events[i].name);
        if (gaps.count(i)) found += ' ';
        const uint64_t op = reach(state);
        ASSERT_EQ(counters_.bad_frames, 0u);
        ASSERT_EQ(notes_.size(), 0u);
        events[i].happens(op);
        found += outcome();
      }
      EXPECT_EQ(found, cells) << state;
    }
  }
  static std::string with_key(std::string frame) {
    frame[offsetof(wire::Control, key_bytes)] = char(FakeDriver::kKeyBytes);
    return frame + std::string(FakeDriver::kKeyBytes, 'k');
  }
  static std::string payload(Kind kind, uint64_t op, uint64_t offset, uint64_t bytes) {
    return control(kind, op, offset) + std::string(bytes, 's');
  }
  void push_all() {
    for (int i = 0; i < 100 && !protocol_->drained(); ++i) protocol_->progress(++now_ns_);
  }
  void give_all_back() {
    while (driver_->lent()) give_back();
  }
  void open_anew(uint32_t flags, void (*prepare)(FakeDriver&) = nullptr) {
    notes_.clear();
    room_.downs.clear();
    counters_ = Counters{};
    open(flags, prepare);
    ASSERT_EQ(put(1, false), Status::ok);  // the hello has left with it
    driver_->sent.clear();
  }
  // The fate of the message since the state was reached; then its peer dies.
  char outcome() {
    char result = '-';
    if (counters_.bad_frames) {
      result = 'x';
    } else if (!notes_.empty()) {
      const Note& last = notes_.back();
      result = last.status != Status::ok        ? '!'
               : last.event == OpEvent::dropped ? 'd'
               : last.bytes == kAnnounced       ? 'o'
                                                : '?';
    }
    const bool ended = !notes_.empty();
    driver_->takes = ~0u;
    driver_->go_down(kPeer, Status::peer_dead);
    protocol_->progress(++now_ns_);
    give_all_back();
    EXPECT_EQ(protocol_->ops().used(), 0u);
    EXPECT_TRUE(protocol_->drained());
    EXPECT_EQ(driver_->registered(), 0u);
    EXPECT_EQ(room_.downs.size(), 1u);
    if (!ended) {
      EXPECT_FALSE(notes_.empty()) << "nobody has told the owner";
    }
    return result;
  }
};

// --- the source ------------------------------------------------------------------------------

class Source : public Rendezvous {
 protected:
  uint64_t reach(const std::string& state) override {
    const bool writes = state == "writing" || state == "written";
    open_anew(writes ? uint32_t{kPut} : state == "read" ? uint32_t{kGet} : 0);
    if (state == "queued") driver_->takes = 0u;
    driver_->remote = Status::pending;
    Envelope env;
    env.want_ack = true;
    env.length = kAnnounced;
    Op* op = nullptr;
    EXPECT_EQ(protocol_->put(*peer_, env, Data(source_.data(), kAnnounced), owner(), &op),
              Status::pending);
    const uint64_t handle = protocol_->ops().handle(op);
    if (state == "queued" || state == "announced" || state == "read") return handle;
    if (state == "streaming") driver_->takes = 1;
    const std::string stream = control(Kind::stream, handle, kAnnounced, Status::ok, 9);
    arrive(writes ? with_key(stream) : stream);
    if (state == "streaming") return handle;
    if (state == "lent") {
      push_all();
      return handle;
    }
    if (state == "streamed") push_all();
    if (state != "writing") give_all_back();
    return handle;
  }
};

TEST_F(Source, EachEventInEachState) {
  const std::vector<Event> events = {
      {"stream",
       [&](uint64_t op) { arrive(control(Kind::stream, op, kAnnounced, Status::ok, 9)); }},
      {"stream with a key",
       [&](uint64_t op) {
         arrive(with_key(control(Kind::stream, op, kAnnounced, Status::ok, 9)));
       }},
      {"stream of too much",
       [&](uint64_t op) { arrive(control(Kind::stream, op, kAnnounced + 1, Status::ok, 9)); }},
      {"finish", [&](uint64_t op) { arrive(control(Kind::finish, op, kAnnounced)); }},
      {"finish: dropped",
       [&](uint64_t op) { arrive(control(Kind::finish, op, 0, Status::dropped)); }},
      {"finish of too much",
       [&](uint64_t op) { arrive(control(Kind::finish, op, kAnnounced + 1)); }},
      {"ack", [&](uint64_t op) { arrive(control(Kind::ack, op, kAnnounced)); }},
      {"data", [&](uint64_t op) { arrive(payload(Kind::data, op, 0, kHalf)); }},
      {"data_end", [&](uint64_t op) { arrive(payload(Kind::data_end, op, 0, kHalf)); }},
      {"reply", [&](uint64_t op) { arrive(control(Kind::reply, op, 0)); }},
      {"room",
       [&](uint64_t) {
         driver_->takes = ~0u;
         push_all();
       }},
      {"done", [&](uint64_t) { give_all_back(); }},
  };
  //   stream, with key, too much; finish, dropped, too much; ack, data, data_end, reply; room, done
  const Table table = {
      {"queued", "xxx xxx xxxx --"},  {"announced", "--x odx xxxx --"},
      {"read", "--x odx xxxx --"},    {"streaming", "xxx --x xxxx --"},
      {"lent", "xxx --x xxxx --"},    {"streamed", "xxx odx xxxx --"},
      {"writing", "xxx xxx xxxx --"}, {"written", "xxx odx xxxx --"},
  };
  expect(table, events, {3, 6, 10});
}

// --- the target ------------------------------------------------------------------------------

class Target : public Rendezvous {
 protected:
  static constexpr uint64_t kTheirs = 77;  // the source's handle, as announcement() has it
  uint64_t reach(const std::string& state) override {
    const bool key =
        state != "queued" && state != "asked" && state != "half" && state != "exported";
    const uint32_t flags = key ? uint32_t{kGet} : 0;
    const auto advise = [](FakeDriver& driver) { driver.advise_frames_below(kAnnounced + 1); };
    const bool first = state == "asked first" || state == "given up";
    open_anew(state == "exported" ? uint32_t{kPut} : flags,
              first ? static_cast<void (*)(FakeDriver&)>(advise) : nullptr);
    driver_->remote = Status::pending;
    if (state == "queued") driver_->takes = 0u;
    if (state == "no room") driver_->refusals = 1000;
    arrive(announcement(kAnnounced, key ? std::string(FakeDriver::kKeyBytes, 'k') : ""));
    if (state == "given up") {
      for (int i = 0; i < 300; ++i) protocol_->progress(now_ns_ += 1000);
      EXPECT_EQ(driver_->accesses, 1u);
    }
    uint64_t op = 0;
    protocol_->ops().for_each([&](Op* one) {
      if (one->role == OpRole::incoming) op = protocol_->ops().handle(one);
    });
    EXPECT_NE(op, 0u);
    if (state == "half") arrive(payload(Kind::data, op, 0, kHalf));
    return op;
  }
};

TEST_F(Target, EachEventInEachState) {
  const std::vector<Event> events = {
      {"data", [&](uint64_t op) { arrive(payload(Kind::data, op, 0, kHalf)); }},
      {"the second half", [&](uint64_t op) { arrive(payload(Kind::data, op, kHalf, kHalf)); }},
      {"all data", [&](uint64_t op) { arrive(payload(Kind::data, op, 0, kAnnounced)); }},
      {"more than all", [&](uint64_t op) { arrive(payload(Kind::data, op, 0, kAnnounced + 1)); }},
      {"data_end, all", [&](uint64_t op) { arrive(payload(Kind::data_end, op, 0, kAnnounced)); }},
      {"data_end, half", [&](uint64_t op) { arrive(payload(Kind::data_end, op, 0, kHalf)); }},
      {"finish", [&](uint64_t op) { arrive(control(Kind::finish, op, kAnnounced)); }},
      {"finish of less", [&](uint64_t op) { arrive(control(Kind::finish, op, kHalf)); }},
      {"stream",
       [&](uint64_t op) { arrive(control(Kind::stream, op, kAnnounced, Status::ok, kTheirs)); }},
      {"ack", [&](uint64_t op) { arrive(control(Kind::ack, op, kAnnounced)); }},
      {"room",
       [&](uint64_t) {
         driver_->takes = ~0u;
         driver_->refusals = 0;
         protocol_->progress(++now_ns_);
       }},
      {"done", [&](uint64_t) { give_all_back(); }},
      {"denied",
       [&](uint64_t) {
         while (driver_->lent()) give_back(Status::denied);
       }},
      {"silence",
       [&](uint64_t) {
         for (int i = 0; i < 300; ++i) protocol_->progress(now_ns_ += 1000);
       }},
  };
  //   data, second half, all, more; end: all, half; finish, less; stream, ack; room, done, denied,
  //   silence
  const Table table = {
      {"queued", "xxxx xx xx xx ----"},   {"asked", "-xox ox xx xx ----"},
      {"half", "xoxx xx xx xx ----"},     {"asked first", "-xox ox xx xx ----"},
      {"given up", "---- -- xx xx -o--"}, {"reading", "xxxx xx xx xx -o--"},
      {"no room", "xxxx xx xx xx ----"},  {"exported", "-xox ox ox xx ----"},
  };
  expect(table, events, {4, 6, 8, 10});
}

}  // namespace
}  // namespace torii
