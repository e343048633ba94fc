// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// For tests of collective operations: a naive model of each, a reduction that is not commutative,
// and members whose calls and progress come in an order that a seed chooses.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "core/torii.h"

namespace torii::test {

using Bytes = std::vector<unsigned char>;

enum class Kind : unsigned { barrier, bcast, reduce, allreduce, allgather, alltoall };
inline constexpr unsigned kKinds = 6;

// x -> a * x + b, of which one follows another. As many bytes as a line has no room for twice.
struct Affine {
  uint64_t a, b, unused;
};
inline void compose(void*, const void* in, void* inout, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += sizeof(Affine)) {
    Affine f, g;
    std::memcpy(&f, static_cast<const char*>(in) + at, sizeof(f));
    std::memcpy(&g, static_cast<char*>(inout) + at, sizeof(g));
    g = {f.a * g.a, f.a * g.b + f.b, f.unused ^ g.unused};
    std::memcpy(static_cast<char*>(inout) + at, &g, sizeof(g));
  }
}
inline constexpr torii_reduction_t kCompose = {compose, nullptr, sizeof(Affine)};

struct Call {
  Kind kind = Kind::barrier;
  uint32_t root = 0;
  uint64_t bytes = 0;  // of a part
  bool in_place = false;
  bool scattered = false;  // bcast: in two pieces
};

// The input of all members: alltoall has a part for each of them.
inline std::vector<Bytes> inputs_of(const Call& call, uint32_t members, std::mt19937_64& random) {
  const uint64_t bytes = call.kind == Kind::alltoall ? call.bytes * members : call.bytes;
  std::vector<Bytes> all(members, Bytes(bytes));
  for (Bytes& one : all)
    for (uint64_t at = 0; at < bytes; at += 8) {
      const uint64_t word = random();
      std::memcpy(one.data() + at, &word, std::min<uint64_t>(8, bytes - at));
    }
  return all;
}

// The result of this member at the end.
inline Bytes result_of(const Call& call, uint32_t self, const std::vector<Bytes>& inputs) {
  Bytes out;
  switch (call.kind) {
    case Kind::barrier:
      break;
    case Kind::bcast:
      return inputs[call.root];
    case Kind::reduce:
      if (self != call.root) break;
      [[fallthrough]];
    case Kind::allreduce:
      out = inputs.back();
      for (size_t i = inputs.size() - 1; i-- > 0;)
        compose(nullptr, inputs[i].data(), out.data(), call.bytes);
      break;
    case Kind::allgather:
      for (const Bytes& part : inputs) out.insert(out.end(), part.begin(), part.end());
      break;
    case Kind::alltoall:
      for (const Bytes& part : inputs)
        out.insert(out.end(), part.begin() + long(self * call.bytes),
                   part.begin() + long((self + 1) * call.bytes));
      break;
  }
  return out;
}

// One member's side of an operation, with its memory.
class Side {
 public:
  Side(const Call& call, uint32_t self, uint32_t members, const Bytes& input) : call_(call) {
    const bool many = call.kind == Kind::allgather || call.kind == Kind::alltoall;
    out_.resize(many ? call.bytes * members : call.bytes);
    if (call.kind == Kind::bcast) {
      if (self == call.root) out_ = input;
      return;
    }
    const bool in_place = call.in_place && (call.kind != Kind::reduce || self == call.root);
    if (!in_place) {
      in_ = input;
      given_ = in_.data();
      if (call.bytes == 0) given_ = &nothing_;
    } else if (call.kind == Kind::allgather) {
      std::copy(input.begin(), input.end(), out_.begin() + long(self * call.bytes));
    } else {
      out_ = input;
    }
  }
  Side(const Side&) = delete;

  int start(torii_group_t* group, torii_done_t done, void* arg) {
    switch (call_.kind) {
      case Kind::barrier:
        return torii_group_barrier(group, done, arg);
      case Kind::bcast:
        return torii_group_bcast(group, call_.root, data(), done, arg);
      case Kind::reduce:
        return torii_group_reduce(group, call_.root, given_, out_.data(), call_.bytes, &kCompose,
                                  done, arg);
      case Kind::allreduce:
        return torii_group_allreduce(group, given_, out_.data(), call_.bytes, &kCompose, done, arg);
      case Kind::allgather:
        return torii_group_allgather(group, given_, out_.data(), call_.bytes, done, arg);
      case Kind::alltoall:
        return torii_group_alltoall(group, given_, out_.data(), call_.bytes, done, arg);
    }
    return TORII_ERR_INVALID;
  }
  const Bytes& out() const { return out_; }

 private:
  const torii_data_t* data() {
    data_ = {};
    data_.bytes = out_.size();
    data_.base = out_.data();
    if (!call_.scattered) return &data_;
    const size_t first = out_.size() / 3;
    pieces_[0] = {out_.data(), first};
    pieces_[1] = {out_.data() + first, out_.size() - first};
    data_.layout = TORII_PIECES;
    data_.pieces = pieces_;
    data_.piece_count = 2;
    return &data_;
  }

  const Call call_;
  Bytes in_, out_;
  const void* given_ = nullptr;  // null: in place
  unsigned char nothing_ = 0;
  torii_data_t data_{};
  iovec pieces_[2];
};

// Sizes around what fits a line, a piece and the ring.
inline Call any_call(uint32_t members, std::mt19937_64& random) {
  Call call;
  call.kind = Kind(random() % kKinds);
  call.root = uint32_t(random() % members);
  static constexpr uint64_t kMost[] = {6, 60, 700, 7000, 70000, 400000};
  uint64_t most = kMost[std::min(random() % 6, random() % 6)];
  if (call.kind == Kind::alltoall || call.kind == Kind::allgather) most = most / members + 1;
  if (call.kind == Kind::alltoall)
    most = std::min<uint64_t>(most, TORII_ALLTOALL_MAX / members / members);
  call.bytes = call.kind == Kind::barrier ? 0 : random() % (most + 1);
  if (call.kind == Kind::reduce || call.kind == Kind::allreduce)
    call.bytes = (call.bytes + sizeof(Affine) - 1) / sizeof(Affine) * sizeof(Affine);
  call.in_place = random() % 3 == 0;
  call.scattered = random() % 3 == 0;
  return call;
}

// A member in the model: which operations it has called, and what came of them.
struct Player {
  struct Running {
    size_t index;
    std::unique_ptr<Side> side;
    std::unique_ptr<torii_flag_t> flag;
  };
  size_t next = 0;
  std::vector<Running> running;
};

// `team` has the groups of all members in `groups`, size(), progress(member), and says of a call
// whether it may be, or has to be, unsupported.
template <typename Team>
void play(Team& team, std::mt19937_64& random, size_t operations) {
  std::vector<Call> calls;
  std::vector<std::vector<Bytes>> inputs;
  for (size_t i = 0; i < operations; ++i) {
    calls.push_back(any_call(team.size(), random));
    inputs.push_back(inputs_of(calls.back(), team.size(), random));
  }
  std::vector<Player> players(team.size());
  const auto check = [&](uint32_t self, size_t index, const Side& side) {
    const Bytes want = result_of(calls[index], self, inputs[index]);
    if (!want.empty()) {
      ASSERT_TRUE(side.out() == want)
          << "operation " << index << " of kind " << unsigned(calls[index].kind) << ", member "
          << self << " of " << team.size() << ", " << calls[index].bytes << " bytes";
    }
  };
  size_t left = operations * team.size();
  for (size_t step = 0; left > 0; ++step) {
    ASSERT_LT(step, 4000 * operations * team.size()) << "nothing goes on";
    const auto self = uint32_t(random() % team.size());
    Player& player = players[self];
    if (player.next < operations && player.running.size() < 3 && random() % 2) {
      const size_t index = player.next++;
      auto side = std::make_unique<Side>(calls[index], self, team.size(), inputs[index][self]);
      auto flag = std::make_unique<torii_flag_t>();
      const int code = side->start(team.groups[self], torii_flag, flag.get());
      const bool refused = code == TORII_ERR_UNSUPPORTED;
      ASSERT_TRUE(team.may_refuse(calls[index]) || !refused) << torii_error();
      ASSERT_TRUE(refused || !team.has_to_refuse(calls[index]));
      if (code == TORII_PENDING) {
        player.running.push_back({index, std::move(side), std::move(flag)});
        continue;
      }
      if (!refused) {
        ASSERT_EQ(code, TORII_OK) << torii_error();
        check(self, index, *side);
      }
      --left;
    } else {
      team.progress(self);
    }
    while (!player.running.empty() && player.running[0].flag->done) {
      ASSERT_EQ(player.running[0].flag->result.code, TORII_OK);
      check(self, player.running[0].index, *player.running[0].side);
      player.running.erase(player.running.begin());
      --left;
    }
  }
}

}  // namespace torii::test
