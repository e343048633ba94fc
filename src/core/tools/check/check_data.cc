// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One description of each structure serves both ways: Writer and Reader have the same functions.
#include "core/tools/check/check_data.h"

#include <algorithm>
#include <type_traits>

namespace torii::check {
namespace {

constexpr uint32_t kVersion = 0x31434b54;  // "TKC1": of both structures
constexpr uint32_t kTextMax = 4096;
constexpr uint32_t kListMax = 1 << 20;

class Writer {
 public:
  explicit Writer(Bytes* out) : out_(*out) {}

  template <typename T>
  void number(const T& value) {
    for (size_t i = 0; i < sizeof(T); i++)
      out_.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i)));
  }
  void text(const std::string& value) {
    const std::string shown = value.substr(0, kTextMax);
    bytes(std::as_bytes(std::span(shown)));
  }
  void block(const Bytes& value) { bytes(value); }
  template <typename T, typename Item>
  void list(const std::vector<T>& items, Item item) {
    number(static_cast<uint32_t>(items.size()));
    for (const T& one : items) item(one);
  }
  bool good() const { return true; }

 private:
  void bytes(std::span<const std::byte> value) {
    number(static_cast<uint32_t>(value.size()));
    out_.insert(out_.end(), value.begin(), value.end());
  }
  Bytes& out_;
};

// After the first mistake everything is empty, and good() says so.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : rest_(in) {}

  template <typename T>
  void number(T& value) {
    uint64_t sum = 0;
    const std::span<const std::byte> from = take(sizeof(T));
    for (size_t i = 0; i < from.size(); i++)
      sum |= static_cast<uint64_t>(static_cast<uint8_t>(from[i])) << (8 * i);
    if constexpr (std::is_same_v<T, bool>) {
      value = sum != 0;
    } else {
      value = static_cast<T>(sum);
    }
  }
  // Text that is shown to people has no control characters.
  void text(std::string& value) {
    const std::span<const std::byte> from = sized(kTextMax);
    value.assign(reinterpret_cast<const char*>(from.data()), from.size());
    for (char& c : value)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  void block(Bytes& value) {
    const std::span<const std::byte> from = sized(kTextMax);
    value.assign(from.begin(), from.end());
  }
  template <typename T, typename Item>
  void list(std::vector<T>& items, Item item) {
    uint32_t count = 0;
    number(count);
    good_ = good_ && count <= kListMax;
    items.clear();
    for (uint32_t i = 0; i < count && good_; i++) item(items.emplace_back());
  }
  bool good() const { return good_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> take(size_t bytes) {
    good_ = good_ && bytes <= rest_.size();
    if (!good_) return {};
    const std::span<const std::byte> out = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return out;
  }
  std::span<const std::byte> sized(uint32_t most) {
    uint32_t bytes = 0;
    number(bytes);
    good_ = good_ && bytes <= most;
    return take(good_ ? bytes : 0);
  }

  std::span<const std::byte> rest_;
  bool good_ = true;
};

template <typename Io, typename F>
void describe_facts(Io& io, F& facts) {
  for (auto& die : facts.dice) {
    auto number = static_cast<uint8_t>(die);
    io.number(number);
    if constexpr (!std::is_const_v<F>) die = static_cast<std::byte>(number);
  }
  io.text(facts.host);
  io.text(facts.place);
  io.number(facts.pid);
  io.number(facts.processors);
  io.text(facts.attach);
  io.number(facts.shared_bytes);
  io.number(facts.shared_free);
  io.number(facts.opens_network);
  io.number(facts.receive_buffer);
  io.list(facts.interfaces, [&](auto& one) {
    io.text(one.name);
    io.number(one.mtu);
    io.number(one.up);
    io.number(one.carrier);
    io.number(one.bridge);
    io.number(one.wanted);
    io.list(one.addresses, [&](auto& address) { io.text(address); });
  });
  io.list(facts.endpoints, [&](auto& one) {
    io.text(one.driver);
    io.number(one.network);
    io.number(one.mtu);
    io.block(one.address);
    io.text(one.why);
  });
}

template <typename Io, typename Rail>
void describe_rail(Io& io, Rail& one) {
  io.number(one.rail);
  io.text(one.interface);
  io.text(one.address);
  io.number(one.mtu);
  io.number(one.sent);
  io.number(one.answered);
  io.number(one.least_ns);
  io.number(one.median_ns);
  io.number(one.longest_sent);
  io.number(one.longest);
}

template <typename Io, typename O>
void describe_observations(Io& io, O& seen) {
  io.list(seen.pairs, [&](auto& pair) {
    io.number(pair.rank);
    io.text(pair.driver);
    io.text(pair.note);
    io.list(pair.rails, [&](auto& one) { describe_rail(io, one); });
    io.list(pair.silent, [&](auto& one) {
      io.text(one.address);
      io.text(one.interface);
      io.number(one.asked);
    });
  });
  io.list(seen.heard, [&](auto& one) {
    io.number(one.rank);
    io.number(one.rail);
    io.number(one.count);
  });
  io.number(seen.multicast);
  io.text(seen.multicast_why);
  io.list(seen.multicast_heard, [&](auto& one) {
    io.number(one.rank);
    io.number(one.last_ms);
  });
}

template <typename T, typename Describe>
Bytes write_all(const T& value, Describe describe) {
  Bytes out;
  Writer writer(&out);
  writer.number(kVersion);
  describe(writer, value);
  return out;
}

template <typename T, typename Describe>
bool read_all(std::span<const std::byte> bytes, T* out, Describe describe) {
  Reader reader(bytes);
  uint32_t version = 0;
  reader.number(version);
  if (version != kVersion) return false;
  describe(reader, *out);
  return reader.good() && reader.at_end();
}

}  // namespace

Bytes encode(const Facts& facts) {
  return write_all(facts, [](auto& io, auto& value) { describe_facts(io, value); });
}
Bytes encode(const Observations& seen) {
  return write_all(seen, [](auto& io, auto& value) { describe_observations(io, value); });
}
bool decode(std::span<const std::byte> bytes, Facts* out) {
  return read_all(bytes, out, [](auto& io, auto& value) { describe_facts(io, value); });
}
bool decode(std::span<const std::byte> bytes, Observations* out) {
  return read_all(bytes, out, [](auto& io, auto& value) { describe_observations(io, value); });
}

}  // namespace torii::check
