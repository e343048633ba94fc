// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A simulated network for nodes that multicast reliably: a virtual clock, a switch, ports with a
// rate, processors that take a while for each frame, and faults from a seed. And programs of
// operations, whose results are compared with what a naive model says.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/multicast/member.h"

namespace torii::test {

using multicast::Call;
using multicast::Datagram;
using multicast::Member;
using multicast::What;

constexpr uint64_t kUs = 1000;
constexpr uint64_t kMs = 1000 * kUs;
constexpr uint64_t kSecond = 1000 * kMs;

struct NetworkFaults {
  uint32_t loss_ppm = 0;       // of each copy of a datagram
  uint32_t duplicate_ppm = 0;  // comes again within 100 us
  uint32_t reorder_ppm = 0;    // comes up to 50 us late
  uint32_t deaf_ppm = 0;       // of the nodes, those that no multicast reaches
  // No multicast arrives in between.
  uint64_t silent_from = UINT64_MAX, silent_to = UINT64_MAX;
  // A node computes before a call, for up to so long.
  uint32_t compute_ppm = 0;
  uint64_t compute_ns = 0;
};

struct NetworkShape {
  uint32_t nodes = 2;
  uint64_t seed = 1;
  uint64_t ring = Member::kRing;
  size_t frame = 1456;
  size_t burst = 44;
  bool scarce = false;
  bool reliable = false;  // nothing is lost, also at a node that reads late; then without faults
  NetworkFaults faults;
};

// A message of a program, alike at all nodes.
struct Step {
  What what = What::barrier;
  uint32_t root = 0;
  uint64_t bytes = 0;
};

class Network {
 public:
  static constexpr double kNsPerByte = 0.8;  // 10 Gbit/s
  static constexpr uint64_t kWireNs = 500;   // to the switch, and from it
  static constexpr uint64_t kProcessorNs = 500;
  static constexpr size_t kFrameRest = 66;           // Ethernet with its gap, IP, UDP
  static constexpr uint64_t kBacklogNs = 250 * kUs;  // of a port that takes no more
  static constexpr size_t kInbox = 400;              // frames that a socket keeps unread

  struct Counts {
    uint64_t multicast = 0;  // datagrams for all that have left
    uint64_t unicast = 0;
    uint64_t received = 0;
    uint64_t overrun = 0;  // that the socket had no room for
  };

  explicit Network(const NetworkShape& shape) : shape_(shape), random_(shape.seed) {
    for (uint32_t i = 0; i < shape.nodes; i++) nodes_.push_back(std::make_unique<Node>(*this, i));
    for (auto& node : nodes_) {
      node->deaf = random_.chance(shape.faults.deaf_ppm);
      multicast::Identity identity;
      identity.self = node->number;
      identity.nodes = shape.nodes;
      identity.scarce = shape.scarce;
      identity.seed = 7;
      node->member =
          std::make_unique<Member>(*node, identity, std::span(node->ring.get(), shape.ring), 0);
      schedule(*node, 0);
    }
  }

  uint64_t now() const { return now_; }
  Member& member(uint32_t node) { return *nodes_[node]->member; }
  const Counts& counts(uint32_t node) const { return nodes_[node]->counts; }
  uint64_t finished_at(uint32_t node) const { return nodes_[node]->finished_at; }
  void set_deaf(uint32_t node, bool deaf) { nodes_[node]->deaf = deaf; }
  void set_busy(uint32_t node, uint64_t until) { nodes_[node]->busy_until = until; }
  void set_faults(const NetworkFaults& faults) { shape_.faults = faults; }
  bool deaf(uint32_t node) const { return nodes_[node]->deaf; }
  bool dead(uint32_t node) const { return nodes_[node]->dead; }
  // From now on nothing comes from this node and nothing reaches it.
  void kill(uint32_t node) {
    if (!nodes_[node]->dead && nodes_[node]->status == Status::pending) pending_--;
    nodes_[node]->dead = true;
  }
  // The layer below of one node has found it out.
  void tell_dead(uint32_t node, uint32_t dead) {
    begin_run(*nodes_[node]);
    nodes_[node]->member->give_up(Status::peer_dead, dead, 7);
    end_run(*nodes_[node], 0);
  }
  void close(uint32_t node) {
    nodes_[node]->member->close(now_);
    schedule(*nodes_[node], now_);
  }

  // All nodes carry out these steps, the first one now.
  void start(const std::vector<Step>& steps) {
    program_ = steps;
    expected_.assign(steps.size(), {});
    pending_ = 0;
    for (auto& node : nodes_) {
      node->step = 0;
      node->calling = false;
      if (node->dead) continue;
      node->status = Status::pending;
      pending_++;
      schedule(*node, now_);
    }
  }
  // Until all nodes have ended their programs, or the time has come. True: they have.
  bool run(uint64_t until) {
    while (!over() && !events_.empty() && events_.top().at <= until) run_event();
    return over();
  }
  void run_until(uint64_t until) {
    while (!events_.empty() && events_.top().at <= until) run_event();
    now_ = until;
  }
  // How the program of a node ended; `pending`: it has not.
  Status status(uint32_t node) const { return nodes_[node]->status; }
  const std::string& complaint() const { return complaint_; }
  uint32_t step_of(uint32_t node) const { return nodes_[node]->step; }

 private:
  static constexpr uint32_t kAll = ~0u;
  using Bytes = std::vector<std::byte>;
  struct Event {
    uint64_t at;
    uint64_t number;
    uint32_t node;
    uint32_t from;
    std::shared_ptr<const Bytes> bytes;  // null: the node runs
    bool at_switch;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  struct Node final : multicast::Channel {
    Node(Network& owner, uint32_t index)
        : network(owner),
          number(index),
          ring(static_cast<std::byte*>(calloc(owner.shape_.ring, 1)), free) {}
    bool reliable() const override { return network.shape_.reliable; }
    size_t largest_frame() const override { return network.shape_.frame; }
    size_t largest_burst() const override { return network.shape_.burst; }
    size_t multicast(std::span<const Datagram> datagrams) override {
      return network.leave(*this, kAll, datagrams);
    }
    size_t send(uint32_t node, std::span<const Datagram> datagrams) override {
      return network.leave(*this, node, datagrams);
    }

    Network& network;
    uint32_t number;
    std::unique_ptr<std::byte, void (*)(void*)> ring;
    std::unique_ptr<Member> member;
    std::deque<std::pair<uint32_t, std::shared_ptr<const Bytes>>> inbox;
    uint64_t processor_free = 0;
    uint64_t up_free = 0, down_free = 0;  // the port's two directions
    uint64_t wake_at = UINT64_MAX;
    uint64_t busy_until = 0;
    uint64_t finished_at = 0;
    bool deaf = false, dead = false;
    Counts counts;
    uint32_t step = 0;
    bool calling = false, computed = false;
    Status status = Status::ok;
    Bytes in, out;
  };

  bool over() const { return pending_ == 0; }
  void end_program(Node& node, Status status) {
    node.status = status;
    node.finished_at = now_;
    pending_--;
  }

  static uint64_t wire_time(size_t bytes) {
    return static_cast<uint64_t>(static_cast<double>(bytes + kFrameRest) * kNsPerByte);
  }

  void schedule(Node& node, uint64_t at) {
    at = std::max({at, now_, node.processor_free, node.busy_until});
    if (at >= node.wake_at && node.wake_at >= node.busy_until) return;
    node.wake_at = at;
    events_.push({at, ++events_made_, node.number, 0, nullptr, false});
  }

  // From the node to the switch.
  size_t leave(Node& from, uint32_t to, std::span<const Datagram> datagrams) {
    size_t taken = 0;
    for (const Datagram& datagram : datagrams) {
      if (from.up_free > now_ + kBacklogNs) break;
      auto bytes = std::make_shared<Bytes>();
      bytes->reserve(datagram.head.size() + datagram.body.size());
      bytes->insert(bytes->end(), datagram.head.begin(), datagram.head.end());
      bytes->insert(bytes->end(), datagram.body.begin(), datagram.body.end());
      from.processor_free = std::max(from.processor_free, now_) + kProcessorNs;
      from.up_free = std::max(from.up_free, from.processor_free) + wire_time(bytes->size());
      ++(to == kAll ? from.counts.multicast : from.counts.unicast);
      events_.push({from.up_free + kWireNs, ++events_made_, to, from.number, bytes, true});
      taken++;
    }
    return taken;
  }

  // From the switch to one node or to all others.
  void spread(const Event& event) {
    if (event.node != kAll) {
      if (event.node < nodes_.size()) cross(event, *nodes_[event.node]);
      return;
    }
    if (now_ >= shape_.faults.silent_from && now_ < shape_.faults.silent_to) return;
    for (auto& node : nodes_)
      if (node->number != event.from && !node->deaf) cross(event, *node);
  }
  void cross(const Event& event, Node& to) {
    if (to.dead || random_.chance(shape_.faults.loss_ppm)) return;
    to.down_free = std::max(to.down_free, now_) + wire_time(event.bytes->size());
    uint64_t at = to.down_free + kWireNs;
    if (random_.chance(shape_.faults.reorder_ppm)) at += random_.between(0, 50 * kUs);
    events_.push({at, ++events_made_, to.number, event.from, event.bytes, false});
    if (!random_.chance(shape_.faults.duplicate_ppm)) return;
    at += random_.between(0, 100 * kUs);
    events_.push({at, ++events_made_, to.number, event.from, event.bytes, false});
  }

  void run_event() {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    if (event.at_switch) return spread(event);
    Node& node = *nodes_[event.node];
    if (node.dead) return;
    if (event.bytes) {
      if (node.inbox.size() >= kInbox && !shape_.reliable) {
        node.counts.overrun++;
        return;
      }
      node.inbox.emplace_back(event.from, event.bytes);
      schedule(node, now_);
    } else if (event.at == node.wake_at) {
      run_node(node);
    }
  }

  void begin_run(Node& node) {
    node.wake_at = UINT64_MAX;
    node.processor_free = std::max(node.processor_free, now_);
  }
  void end_run(Node& node, uint64_t cost) {
    node.processor_free += cost;
    if (!node.inbox.empty() || ready(node)) {
      schedule(node, now_);
    } else if (const uint64_t at = node.member->deadline(); at != UINT64_MAX) {
      schedule(node, at);
    }
  }

  void run_node(Node& node) {
    begin_run(node);
    if (now_ < node.busy_until) return schedule(node, node.busy_until);
    uint64_t cost = 0;
    if (!node.inbox.empty()) {
      const auto [from, bytes] = node.inbox.front();
      node.inbox.pop_front();
      node.counts.received++;
      cost = kProcessorNs;
      node.member->receive(from, *bytes, now_);
    } else if (node.member->deadline() <= now_) {
      node.member->poll(now_);
    }
    use(node);
    end_run(node, cost);
  }

  // There is something to do without a datagram.
  bool ready(const Node& node) const {
    if (node.status != Status::pending) return false;
    return !node.calling || node.member->status() != Status::pending;
  }

  // The program of the node.
  void use(Node& node) {
    while (node.status == Status::pending) {
      if (node.calling) {
        const Status status = node.member->status();
        if (status == Status::pending) return;
        node.calling = node.computed = false;
        if (status != Status::ok) {
          end_program(node, status);
          return;
        }
        check(node);
        node.step++;
      }
      if (node.step == program_.size()) {
        end_program(node, Status::ok);
        return;
      }
      if (!node.computed && random_.chance(shape_.faults.compute_ppm)) {
        node.computed = true;
        node.busy_until = now_ + random_.between(0, shape_.faults.compute_ns);
        return;
      }
      call(node);
    }
  }

  void call(Node& node) {
    const Step& step = program_[node.step];
    Call call;
    call.what = step.what;
    call.root = step.root;
    call.bytes = step.bytes;
    const bool reads = step.what == What::bcast && step.root != node.number;
    node.in = reads ? Bytes() : part_of(node.step, node.number);
    node.out.assign(step.what == What::allgather ? step.bytes * shape_.nodes : step.bytes,
                    std::byte{0xee});
    call.in = node.in.data();
    call.out = node.out.data();
    call.reduction.combine = combine;
    node.calling = true;
    static_cast<void>(node.member->begin(call, now_));
  }

  // The contribution of node `number` to a step.
  Bytes part_of(uint32_t step, uint32_t number) const {
    Bytes bytes(program_[step].bytes);
    Random random(shape_.seed * 31 + step * 1000003ull + number);
    for (size_t i = 0; i < bytes.size(); i += 8) {
      const uint64_t word = random.next();
      std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, bytes.size() - i));
    }
    return bytes;
  }

  // Pairs of numbers as maps x -> a * x + b, one after the other: the order matters. Bytes after
  // the last pair: the last node's.
  static void combine(void*, const void* in, void* inout, uint64_t bytes) {
    const auto* const from = static_cast<const std::byte*>(in);
    auto* const to = static_cast<std::byte*>(inout);
    for (uint64_t at = 0; at + 8 <= bytes; at += 8) {
      uint32_t first[2], second[2];
      std::memcpy(first, from + at, 8);
      std::memcpy(second, to + at, 8);
      second[1] += second[0] * first[1];
      second[0] *= first[0];
      std::memcpy(to + at, second, 8);
    }
  }

  const Bytes& expected(uint32_t index) {
    Bytes& bytes = expected_[index];
    const Step& step = program_[index];
    if (!bytes.empty() || step.bytes == 0 || step.what == What::barrier) return bytes;
    if (step.what == What::bcast) return bytes = part_of(index, step.root);
    for (uint32_t i = 0; i < shape_.nodes; i++) {
      if (step.what == What::allgather) {
        const Bytes part = part_of(index, i);
        bytes.insert(bytes.end(), part.begin(), part.end());
      } else if (i == 0) {
        bytes = part_of(index, shape_.nodes - 1);
      } else {
        combine(nullptr, part_of(index, shape_.nodes - 1 - i).data(), bytes.data(), bytes.size());
      }
    }
    return bytes;
  }

  void check(Node& node) {
    const Step& step = program_[node.step];
    if (step.what == What::barrier || (step.what == What::bcast && step.root == node.number))
      return;
    if (node.out != expected(node.step) && complaint_.empty())
      complaint_ = "node " + std::to_string(node.number) + " has wrong bytes after step " +
                   std::to_string(node.step);
  }

  NetworkShape shape_;
  Random random_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::priority_queue<Event> events_;
  uint64_t events_made_ = 0;
  uint64_t now_ = 0;
  uint32_t pending_ = 0;  // nodes whose program goes on
  std::vector<Step> program_;
  std::vector<Bytes> expected_;
  std::string complaint_;
};

}  // namespace torii::test
