// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/collective/letter.h"

#include <algorithm>

#include "core/base/little_endian.h"

namespace torii::team {

namespace {

constexpr uint8_t kLetterVersion = 4;  // changes with the layout of the segment, too

// A set-up ends so, or goes on with `ok`. Any other status would end it at some members only: for
// instance, they would wait for a completion after `pending`.
bool is_outcome(uint8_t number) {
  for (const Status status :
       {Status::ok, Status::unsupported, Status::peer_dead, Status::peer_closed})
    if (number == uint8_t(status)) return true;
  return false;
}

template <size_t N>
void put_bytes(const std::array<std::byte, N>& from, std::byte* to) {
  std::copy(from.begin(), from.end(), to);
}
template <size_t N>
void get_bytes(const std::byte* from, std::array<std::byte, N>* to) {
  std::copy_n(from, N, to->begin());
}

}  // namespace

//   version 1 | kind 1 | status 1 | scarce 1 | member 4 | order 8 | bytes of body 8 | body
std::vector<std::byte> write_letter(const Letter& letter) {
  std::vector<std::byte> out(kLetterHead + letter.body.size());
  const uint64_t first = uint64_t{kLetterVersion} | uint64_t(letter.kind) << 8 |
                         uint64_t(letter.status) << 16 | uint64_t{letter.scarce} << 24 |
                         uint64_t{letter.member} << 32;
  store_little(out.data(), first);
  store_little(out.data() + 8, letter.order);
  store_little(out.data() + 16, uint64_t{letter.body.size()});
  std::copy(letter.body.begin(), letter.body.end(), out.begin() + kLetterHead);
  return out;
}

bool read_letter(std::span<const std::byte> bytes, Letter* out) {
  if (bytes.size() < kLetterHead || bytes.size() > kLetterHead + kBodyMax) return false;
  const auto first = load_little<uint64_t>(bytes.data());
  const auto kind = uint8_t(first >> 8), status = uint8_t(first >> 16),
             scarce = uint8_t(first >> 24);
  if (uint8_t(first) != kLetterVersion || kind < 1 || kind > kLetterKinds || !is_outcome(status) ||
      scarce > 1 || load_little<uint64_t>(bytes.data() + 16) != bytes.size() - kLetterHead)
    return false;
  out->kind = LetterKind(kind);
  out->status = Status(status);
  out->scarce = scarce != 0;
  out->member = uint32_t(first >> 32);
  out->order = load_little<uint64_t>(bytes.data() + 8);
  out->body = bytes.subspan(kLetterHead);
  return true;
}

//   home 4 | frame 4 | driver 8 | least 8 | network 8 | key 32
std::vector<std::byte> write_report(const Report& report) {
  std::vector<std::byte> out(kReportBytes);
  store_little(out.data(), report.home);
  store_little(out.data() + 4, report.frame);
  store_little(out.data() + 8, report.driver);
  store_little(out.data() + 16, report.least);
  store_little(out.data() + 24, report.network);
  put_bytes(report.key, out.data() + 32);
  return out;
}

bool read_report(std::span<const std::byte> bytes, Report* out) {
  if (bytes.size() != kReportBytes) return false;
  out->home = load_little<uint32_t>(bytes.data());
  out->frame = load_little<uint32_t>(bytes.data() + 4);
  out->driver = load_little<uint64_t>(bytes.data() + 8);
  out->least = load_little<uint64_t>(bytes.data() + 16);
  out->network = load_little<uint64_t>(bytes.data() + 24);
  get_bytes(bytes.data() + 32, &out->key);
  return true;
}

//   frame 4 | members 4 | least 8 | key 32 | sealed 32 | home of each member 2
std::vector<std::byte> write_plan(const Plan& plan) {
  std::vector<std::byte> out(kPlanHead + 2 * plan.homes.size());
  store_little(out.data(), plan.frame);
  store_little(out.data() + 4, uint32_t(plan.homes.size()));
  store_little(out.data() + 8, plan.least);
  put_bytes(plan.key, out.data() + 16);
  put_bytes(plan.sealed, out.data() + 48);
  for (size_t i = 0; i < plan.homes.size(); ++i)
    store_little(out.data() + kPlanHead + 2 * i, plan.homes[i]);
  return out;
}

bool read_plan(std::span<const std::byte> bytes, size_t members, Plan* out) {
  if (bytes.size() != kPlanHead + 2 * members || load_little<uint32_t>(bytes.data() + 4) != members)
    return false;
  out->frame = load_little<uint32_t>(bytes.data());
  out->least = load_little<uint64_t>(bytes.data() + 8);
  get_bytes(bytes.data() + 16, &out->key);
  get_bytes(bytes.data() + 48, &out->sealed);
  out->homes.resize(members);
  for (size_t i = 0; i < members; ++i) {
    const auto home = load_little<uint16_t>(bytes.data() + kPlanHead + 2 * i);
    out->homes[i] = home;
    if (home > i || out->homes[home] != home) return false;
  }
  return true;
}

// --- letters under way ------------------------------------------------------------------------

void Letters::send(Peer& peer, const Letter& letter) {
  std::erase_if(sent_, [](const auto& post) { return post->flag.done; });
  auto post = std::make_unique<Post>();
  post->bytes = write_letter(letter);
  const Status status =
      ports_.send(*ports_.port(kTeamPort), peer, TORII_STANDARD, tag_, 0,
                  Data(post->bytes.data(), post->bytes.size()), torii_flag, &post->flag, nullptr);
  if (status == Status::pending) sent_.push_back(std::move(post));
}

void Letters::receive(uint32_t from, Peer& peer, size_t body) {
  received_[from] = std::make_unique<Post>();
  Post& post = *received_[from];
  post.bytes.resize(kLetterHead + body);
  const Status status = ports_.receive(*ports_.port(kTeamPort), {&peer, tag_, 0},
                                       Data(post.bytes.data(), post.bytes.size()), torii_flag,
                                       &post.flag, nullptr, &post.flag.result);
  if (status == Status::pending) return;
  if (status != Status::ok) post.flag.result.code = code_of(status);
  post.flag.done = 1;
}

bool Letters::read(uint32_t from, LetterKind kind, Letter* out) const {
  const Post& post = *received_[from];
  return came(from) && read_letter(std::span(post.bytes).first(post.flag.result.bytes), out) &&
         out->kind == kind;
}

bool Letters::quiet() const {
  const auto over = [](const auto& post) { return !post || post->flag.done; };
  return std::all_of(sent_.begin(), sent_.end(), over) &&
         std::all_of(received_.begin(), received_.end(), over);
}

}  // namespace torii::team
