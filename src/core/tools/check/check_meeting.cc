// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/check/check_meeting.h"

#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/boot/boot.h"

namespace torii::check {
namespace {

constexpr size_t kPiece = kBootAddressMax - sizeof(uint32_t);
constexpr uint32_t kBytesMax = 16 << 20;

class LauncherMeeting final : public Meeting {
 public:
  LauncherMeeting(std::unique_ptr<Boot> boot, uint64_t deadline_ms, uint64_t multicast_ms)
      : boot_(std::move(boot)) {
    rank_ = boot_->info().rank;
    size_ = boot_->info().size;
    local_size_ = boot_->info().local_size;
    deadline_ms_ = deadline_ms;
    multicast_ms_ = multicast_ms;
    judges_ = rank_ == 0;
  }

  // In pieces, as many as the longest has: each begins with what is left to come, itself included.
  std::vector<Given> exchange(const Bytes& mine) override {
    std::vector<Given> all(size_);
    std::vector<uint32_t> left(size_, 0);
    bool more = true;
    for (size_t at = 0; more; at += kPiece) {
      const size_t rest = mine.size() - std::min(at, mine.size());
      const size_t bytes = std::min(rest, kPiece);
      Bytes piece(sizeof(uint32_t) + bytes);
      const auto announced = static_cast<uint32_t>(rest);
      std::memcpy(piece.data(), &announced, sizeof(announced));
      if (bytes) std::memcpy(piece.data() + sizeof(announced), mine.data() + at, bytes);
      std::string why;
      if (boot_->publish(piece, &why) != Status::ok) return failed(why);
      more = false;
      for (uint32_t rank = 0; rank < size_; rank++) {
        if (boot_->lookup(rank, &piece, &why) != Status::ok) return failed(why);
        if (!append(piece, &left[rank], &all[rank]))
          return failed("rank " + std::to_string(rank) + " is of another version of torii-check");
        more |= left[rank] > 0;
      }
    }
    return all;
  }
  // Nobody leaves before all have what they look for: with the last process of a node the
  // launcher's memory of what they gave goes as well.
  std::vector<Given> deliver(const Bytes& mine) override {
    std::vector<Given> all = exchange(mine);
    std::string why;
    if (boot_->barrier(&why) != Status::ok) TORII_DEBUG("torii-check: %s", why.c_str());
    return all;
  }

 private:
  static bool append(const Bytes& piece, uint32_t* left, Given* out) {
    uint32_t rest;
    if (piece.size() < sizeof(rest)) return false;
    std::memcpy(&rest, piece.data(), sizeof(rest));
    const size_t bytes = piece.size() - sizeof(rest);
    if (rest > kBytesMax || bytes > rest || bytes != std::min<size_t>(rest, kPiece)) return false;
    if (out->there && rest != *left) return false;
    out->there = true;
    out->bytes.insert(out->bytes.end(), piece.begin() + sizeof(rest), piece.end());
    *left = rest - static_cast<uint32_t>(bytes);
    return true;
  }
  std::vector<Given> failed(const std::string& why) const {
    std::vector<Given> all(size_);
    for (Given& one : all) one.why = why;
    return all;
  }

  std::unique_ptr<Boot> boot_;
};

}  // namespace

std::unique_ptr<Meeting> meet_by_launcher(uint64_t deadline_ms, uint64_t multicast_ms,
                                          std::string* why) {
  if (!param_is_set("boot_deadline_ms") &&
      param_set("boot_deadline_ms", std::to_string(deadline_ms / 2), "torii-check", why) !=
          Status::ok)
    return nullptr;
  std::unique_ptr<Boot> boot = open_boot(why);
  if (!boot) return nullptr;
  return std::make_unique<LauncherMeeting>(std::move(boot), deadline_ms, multicast_ms);
}

}  // namespace torii::check
