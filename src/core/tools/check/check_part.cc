// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A part of a check by hand: its end of the pipe.
#include <errno.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "core/tools/check/check_hosts.h"
#include "core/tools/check/check_stream.h"

namespace torii::check {
namespace {

bool read_all(std::byte* to, size_t bytes) {
  while (bytes) {
    const ssize_t n = read(0, to, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool read_block(Bytes* block) {
  std::byte head[4];
  uint32_t bytes = 0;
  std::span<const std::byte> from(head);
  if (!read_all(head, sizeof head) || !take_number(&from, &bytes) || bytes > kBlockMax)
    return false;
  block->resize(bytes);
  return read_all(block->data(), bytes);
}

class PipeMeeting final : public Meeting {
 public:
  // Takes the descriptor for what goes back: nobody else may write there.
  PipeMeeting(const Orders& orders, int out) : out_(out) {
    rank_ = orders.rank;
    size_ = orders.size;
    deadline_ms_ = orders.deadline_ms;
    multicast_ms_ = orders.multicast_ms;
    stop_ = 0;
  }
  ~PipeMeeting() override { close(out_); }

  std::vector<Given> exchange(const Bytes& mine) override {
    std::vector<Given> all(size_);
    Bytes table;
    std::vector<Bytes> given;
    if (!say(mine) || !read_block(&table) || !decode(table, size_, &given)) {
      for (Given& one : all) one.why = "the process that began the check has gone";
      return all;
    }
    for (size_t i = 0; i < all.size(); i++) {
      all[i].there = !given[i].empty();
      all[i].bytes = std::move(given[i]);
    }
    return all;
  }
  std::vector<Given> deliver(const Bytes& mine) override {
    (void)say(mine);
    return {};
  }

  bool greet() { return write_all(std::as_bytes(std::span(kGreeting))); }

 private:
  bool say(const Bytes& mine) {
    Bytes block;
    append_block(&block, mine);
    return write_all(block);
  }
  bool write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = write(out_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return true;
  }

  int out_;
};

}  // namespace

std::unique_ptr<Meeting> meet_by_pipe(std::string* why) {
  Bytes block;
  Orders orders;
  if (!read_block(&block) || !decode(block, &orders)) {
    *why = "--part is for processes that torii-check starts itself; say --hosts";
    return nullptr;
  }
  for (const auto& [name, value] : orders.variables) setenv(name.c_str(), value.c_str(), 1);
  const int out = dup(1);
  if (out < 0 || dup2(2, 1) < 0) {
    *why = std::string("no descriptor is left: ") + std::strerror(errno);
    return nullptr;
  }
  auto meeting = std::make_unique<PipeMeeting>(orders, out);
  if (meeting->greet()) return meeting;
  *why = "the process that began the check has gone";
  return nullptr;
}

}  // namespace torii::check
