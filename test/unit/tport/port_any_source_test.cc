// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// In which order receives from any source are complete if the messages were there before the
// receiver polled: in theirs. Long receives from one peer may be read together, later.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/param.h"
#include "core/torii.h"

namespace torii {
namespace {

constexpr size_t kLong = 40 << 10;

struct End {
  explicit End(uint32_t rank) {
    torii_options_t options{};
    options.struct_bytes = sizeof(options);
    options.job = 99;
    options.rank = options.local_rank = rank;
    options.size = options.local_size = 2;
    EXPECT_EQ(torii_open(&options, &ni), TORII_OK) << torii_error();
    EXPECT_EQ(torii_port_open(ni, 3, &port), TORII_OK) << torii_error();
  }
  ~End() {
    torii_port_close(port);
    torii_close(ni);
  }
  torii_peer_t* to(const End& other) {
    char address[512];
    torii_peer_t* peer = nullptr;
    EXPECT_EQ(torii_connect(ni, address, torii_address(other.ni, address, sizeof(address)), &peer),
              TORII_OK)
        << torii_error();
    return peer;
  }
  torii_ni_t* ni = nullptr;
  torii_port_t* port = nullptr;
};

void note(void* order, const torii_result_t* result) {
  EXPECT_EQ(result->code, TORII_OK);
  static_cast<std::vector<uint64_t>*>(order)->push_back(result->tag);
}

void ignore(void*, const torii_result_t*) {}

// Two processes' interfaces, of which one looks only when all messages are there.
class AnySource : public ::testing::Test {
 protected:
  void SetUp() override {
    set("drivers", "self,shm");
    set("shm_eager_limit", "4k");  // whatever is best here
    set("shm_split_min", "1m");
    sender_ = std::make_unique<End>(0);
    receiver_ = std::make_unique<End>(1);
    to_receiver_ = sender_->to(*receiver_);
    to_sender_ = receiver_->to(*sender_);
    exchange({{1, kLong}}, to_sender_);  // they are in touch
    if (counter("pulled_bytes") == 0) GTEST_SKIP() << "cross-memory attach is refused here";
  }
  void TearDown() override {
    sender_.reset();
    receiver_.reset();
    set("shm_eager_limit", "0");
    set("shm_split_min", "0");
  }
  static void set(const char* name, const char* value) {
    std::string why;
    ASSERT_EQ(param_set(name, value, "test", &why), Status::ok) << why;
  }

  uint64_t counter(const std::string& name) {
    for (size_t i = 0; i < torii_counter_count(); ++i)
      if (torii_counter_name(i) == name) return torii_counter_value(receiver_->ni, i);
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }

  // The tags in the order in which the messages were complete.
  std::vector<uint64_t> exchange(const std::vector<std::pair<uint64_t, size_t>>& messages,
                                 torii_peer_t* source) {
    std::vector<uint64_t> order;
    std::vector<std::string> from, to;
    for (const auto& [tag, bytes] : messages) {
      from.emplace_back(bytes, char('a' + tag));
      to.emplace_back(bytes, '.');
    }
    torii_result_t result;
    for (size_t i = 0; i < messages.size(); ++i) {
      torii_data_t data{};
      data.base = to[i].data();
      data.bytes = to[i].size();
      EXPECT_EQ(torii_recv(receiver_->port, source, messages[i].first, 0, &data, note, &order,
                           nullptr, &result),
                TORII_PENDING);
    }
    for (size_t i = 0; i < messages.size(); ++i) {
      torii_data_t data{};
      data.base = from[i].data();
      data.bytes = from[i].size();
      EXPECT_GE(torii_send(sender_->port, to_receiver_, TORII_STANDARD, messages[i].first, 0, &data,
                           ignore, nullptr, nullptr),
                TORII_OK);
      for (int k = 0; k < 100; ++k) torii_progress(sender_->ni);
    }
    for (int i = 0; i < 10'000'000 && order.size() < messages.size(); ++i) {
      torii_progress(receiver_->ni);
      torii_progress(sender_->ni);
    }
    EXPECT_EQ(from, to);
    return order;
  }

  std::unique_ptr<End> sender_, receiver_;
  torii_peer_t *to_receiver_ = nullptr, *to_sender_ = nullptr;
};

const std::vector<std::pair<uint64_t, size_t>> kMessages{{1, kLong}, {2, 8}, {3, kLong}, {4, 8}};

TEST_F(AnySource, MessagesAreNotPutOff) {
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(exchange(kMessages, nullptr), (std::vector<uint64_t>{1, 2, 3, 4}));
}

TEST_F(AnySource, OfOnePeerLongMessagesMayBe) {
  EXPECT_EQ(exchange(kMessages, to_sender_), (std::vector<uint64_t>{2, 4, 1, 3}));
}

}  // namespace
}  // namespace torii
