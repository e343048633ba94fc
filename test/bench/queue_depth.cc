// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The cost of a long queue: ns for one message (receive posted, message sent to oneself, matched,
// completed) with a posted or an unexpected queue of DEPTH entries, against the same with one
// entry. The best of many rounds each; rounds of both lengths alternate.
//
//   queue_depth [DEPTH [ROUNDS]]
//
// Orders in which entries are matched: "head", the oldest one every time; "tail", the newest one,
// behind all others; "random"; each is replaced by a new last entry. "reverse": the whole queue
// from the newest entry to the oldest, then filled again.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "core/torii.h"

namespace {

constexpr uint64_t kLow = 0xffffffff;
constexpr uint64_t kAll = ~uint64_t{0};
constexpr uint32_t kMessages = 20000;  // of a round

enum class Kind { exact, any_source, any_tag, any_message };
enum class Order { head, tail, random, reverse };
constexpr const char* kKindNames[] = {"exact", "any-source", "any-tag", "any-message"};
constexpr const char* kOrderNames[] = {"head", "tail", "random", "reverse"};

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "queue_depth: %s: %s\n", what, torii_error());
  exit(1);
}

// A process that talks to itself over one port.
class Loop {
 public:
  Loop() {
    torii_options_t options{};
    options.struct_bytes = sizeof(options);
    options.job = 1;
    options.size = options.local_size = 1;
    if (torii_open(&options, &ni_) != TORII_OK) fail("torii_open");
    unsigned char address[512];
    const size_t bytes = torii_address(ni_, address, sizeof(address));
    if (torii_connect(ni_, address, bytes, &self_) != TORII_OK) fail("torii_connect");
  }
  ~Loop() { torii_close(ni_); }

  void open() {
    if (torii_port_open(ni_, 0, &port_) != TORII_OK) fail("torii_port_open");
  }
  void close() {
    torii_port_close(port_);
    while (torii_progress(ni_) > 0) {
    }
  }
  void post(Kind kind, uint32_t index) {
    torii_data_t data{};
    data.base = &target_;
    data.bytes = sizeof(target_);
    torii_peer_t* source = kind == Kind::any_source || kind == Kind::any_message ? nullptr : self_;
    const uint64_t ignore = kind == Kind::any_message ? kAll : kind == Kind::any_tag ? kLow : 0;
    torii_result_t result;
    const int code =
        torii_recv(port_, source, tag(index), ignore, &data, completed, this, nullptr, &result);
    if (code < 0) fail("torii_recv");
    if (code == TORII_OK) ++received_;
  }
  void send(uint32_t index) {
    torii_data_t data{};
    data.base = &source_;
    data.bytes = sizeof(source_);
    const int code =
        torii_send(port_, self_, TORII_STANDARD, tag(index), 0, &data, sent, nullptr, nullptr);
    if (code < 0) fail("torii_send");
    while (torii_progress(ni_) == 0) {
    }
  }
  uint64_t received() const { return received_; }

 private:
  static uint64_t tag(uint32_t index) { return uint64_t{index} << 32; }
  static void completed(void* arg, const torii_result_t*) { ++static_cast<Loop*>(arg)->received_; }
  static void sent(void*, const torii_result_t*) {}

  torii_ni_t* ni_ = nullptr;
  torii_peer_t* self_ = nullptr;
  torii_port_t* port_ = nullptr;
  uint64_t source_ = 1, target_ = 0;
  uint64_t received_ = 0;
};

struct Case {
  bool posted;
  Kind kind;
  Order order;
};

// One queue through one round. add() puts an entry at its end, match() completes one entry.
class Queue {
 public:
  Queue(Loop& loop, const Case& c) : loop_(loop), case_(c) {}
  void add(uint32_t index) { case_.posted ? loop_.post(case_.kind, index) : loop_.send(index); }
  void match(uint32_t index) { case_.posted ? loop_.send(index) : loop_.post(case_.kind, index); }

  // ns for one message.
  double round(uint32_t depth) {
    loop_.open();
    uint32_t left = kMessages;
    const uint64_t received = loop_.received();
    uint64_t start = now_ns();
    if (case_.order == Order::reverse) {
      for (left = std::max(left, depth); left >= depth; left -= depth) {
        for (uint32_t i = 0; i < depth; ++i) add(i);
        for (uint32_t i = depth; i-- > 0;) match(i);
      }
    } else {
      for (uint32_t i = 0; i < depth; ++i) add(i);
      fill_indices(depth);
      start = now_ns();
      for (uint32_t i = 0; i < kMessages; ++i) {
        match(indices_[i]);
        add(indices_[i]);
      }
    }
    const double ns = double(now_ns() - start);
    const uint64_t messages = loop_.received() - received;
    if (messages == 0) fail("no message was matched");
    loop_.close();
    return ns / double(messages);
  }

 private:
  // Which entry each message matches.
  void fill_indices(uint32_t depth) {
    indices_.assign(kMessages, depth - 1);
    if (case_.order == Order::tail) return;
    uint64_t random = 1;
    for (uint32_t i = 0; i < kMessages; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      indices_[i] = case_.order == Order::head ? i % depth : uint32_t((random >> 33) % depth);
    }
  }

  Loop& loop_;
  const Case case_;
  std::vector<uint32_t> indices_;
};

double best_of(std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }

void run(Loop& loop, const Case& c, uint32_t depth, uint32_t rounds) {
  Queue queue(loop, c);
  std::vector<double> shallow, deep;
  queue.round(depth);
  for (uint32_t i = 0; i < rounds; ++i) {
    shallow.push_back(queue.round(1));
    deep.push_back(queue.round(depth));
  }
  const double one = best_of(shallow), many = best_of(deep);
  printf("%12s %12s %10s %10.1f %10.1f %8.2f\n", c.posted ? "posted" : "unexpected",
         kKindNames[int(c.kind)], kOrderNames[int(c.order)], one, many, many / one);
  fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int depth = argc > 1 ? atoi(argv[1]) : 10000;
  const int rounds = argc > 2 ? atoi(argv[2]) : 15;
  if (argc > 3 || depth < 1 || depth > 1000000 || rounds < 1) {
    fprintf(stderr, "usage: queue_depth [DEPTH [ROUNDS]]   DEPTH from 1 to 1000000\n");
    return 2;
  }
  setenv("TORII_DRIVERS", "self", 1);
  Loop loop;
  printf("ns for one message, the best of %d rounds of %u\n", rounds, kMessages);
  printf("%12s %12s %10s %10s %10d %8s\n", "queue", "receives", "order", "1 entry", depth, "ratio");
  for (bool posted : {true, false}) {
    for (Kind kind : {Kind::exact, Kind::any_source, Kind::any_tag})
      for (Order order : {Order::head, Order::tail, Order::random, Order::reverse})
        run(loop, {posted, kind, order}, uint32_t(depth), uint32_t(rounds));
    run(loop, {posted, Kind::any_message, Order::head}, uint32_t(depth), uint32_t(rounds));
  }
  return 0;
}
