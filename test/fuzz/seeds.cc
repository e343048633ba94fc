// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Writes a small corpus for every fuzz target, made of what the library itself produces.
//
//   seeds DIRECTORY      makes DIRECTORY/wire, /protocol, /link and so on
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/param.h"
#include "core/base/tune_file.h"
#include "core/collective/letter.h"
#include "core/ni/ni.h"
#include "core/protocol/wire.h"
#include "drivers/ucx/wire.h"
#include "drivers/udp/wire.h"

using namespace torii;

namespace {

std::string g_directory;
bool g_failed = false;

void write_seed(const std::string& target, const std::string& bytes) {
  static unsigned number = 0;
  const std::string folder = g_directory + "/" + target;
  mkdir(g_directory.c_str(), 0777);
  mkdir(folder.c_str(), 0777);
  const std::string name = folder + "/seed-" + std::to_string(number++);
  FILE* file = fopen(name.c_str(), "wb");
  const bool written = file && fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file) fclose(file);
  if (written) return;
  fprintf(stderr, "seeds: %s cannot be written: %s\n", name.c_str(), strerror(errno));
  g_failed = true;
}

template <typename H>
std::string encoded(const H& header) {
  std::string out(sizeof(H), 0);
  wire::encode(header, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

void wire_seeds() {
  wire::Tagged tagged{};
  tagged.kind = wire::Kind::tagged;
  tagged.bits = 7;
  write_seed("wire", encoded(tagged) + "payload");
  wire::Announced announced{};
  announced.kind = wire::Kind::tagged_announce;
  announced.length = 70;
  announced.op = 5;
  write_seed("wire", encoded(announced) + "the key!");
  wire::Hello hello{};
  hello.kind = wire::Kind::hello;
  hello.version = wire::kVersion;
  hello.job = 1;
  write_seed("wire", encoded(hello));
  for (unsigned kind = unsigned(wire::Kind::put); kind <= unsigned(wire::Kind::getput); ++kind) {
    wire::Request r{};
    r.kind = wire::Kind(kind);
    r.op = r.kind == wire::Kind::put ? 0 : 5;
    const bool payload = r.kind == wire::Kind::put || r.kind == wire::Kind::getput;
    const bool key = r.kind == wire::Kind::put_announce;
    r.length = 7;
    r.key_bytes = key ? 8 : 0;
    write_seed("wire", encoded(r) + (payload ? "payload" : key ? "the key!" : ""));
  }
  wire::Request puts{};
  puts.kind = wire::Kind::puts;
  puts.flags = wire::kWantAck | wire::kMemorySpace;
  puts.length = 7;
  puts.op = 5;
  write_seed("wire", encoded(puts) + "payload");
  for (unsigned kind = unsigned(wire::Kind::more); kind <= unsigned(wire::Kind::joined); ++kind) {
    wire::Control c{};
    c.kind = wire::Kind(kind);
    c.op = c.sender_op = 9;
    c.length = 70;
    const bool payload =
        c.kind == wire::Kind::more || c.kind == wire::Kind::data || c.kind == wire::Kind::reply;
    const bool key = c.kind == wire::Kind::stream || c.kind == wire::Kind::reply_announce;
    c.key_bytes = key ? 8 : 0;
    write_seed("wire", encoded(c) + (payload ? "payload" : key ? "the key!" : ""));
  }
  wire::Control end{};
  end.kind = wire::Kind::data_end;
  end.op = 9;
  end.length = 70;
  write_seed("wire", encoded(end) + "payload");
  wire::Update update{};
  update.kind = wire::Kind::update;
  update.width = 8;
  update.op = 5;
  write_seed("wire", encoded(update));
  update.locked = 1;
  write_seed("wire", encoded(update) + std::string(wire::LockWord::kBytes, 'l'));
  wire::Updated updated{};
  updated.kind = wire::Kind::updated;
  updated.op = 9;
  write_seed("wire", encoded(updated));
}

// Steps of protocol_fuzz (every kind of them often, over every kind of driver), link_fuzz,
// group_fuzz, card_fuzz, hub_fuzz, multicast_fuzz, team_fuzz, segment_fuzz.
void step_seeds(const std::string& target) {
  uint64_t random = 1;
  for (unsigned shape = 0; shape < 64; ++shape) {
    std::string bytes(1, char(shape < 32 ? shape : shape | 0xe0));
    for (int i = 0; i < 1500; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const auto value = unsigned(random >> 40);
      bytes += char(value & 0x100 ? value & 0xff : value & 0xf);  // small numbers are frequent
    }
    write_seed(target, bytes);
  }
}

// A letter of each kind, and what is in two of them.
void letter_seeds() {
  const auto write = [](const std::vector<std::byte>& bytes) {
    write_seed("team", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  };
  team::Report report;
  report.frame = 1400;
  team::Plan plan;
  plan.frame = 1400;
  plan.homes = {0, 0, 2, 0, 2};
  const auto report_bytes = team::write_report(report), plan_bytes = team::write_plan(plan);
  write(report_bytes);
  write(plan_bytes);
  for (uint8_t kind = 1; kind <= team::kLetterKinds; ++kind) {
    team::Letter letter;
    letter.kind = team::LetterKind(kind);
    letter.member = 1;
    letter.order = 77;
    if (letter.kind == team::LetterKind::report) letter.body = report_bytes;
    if (letter.kind == team::LetterKind::plan) letter.body = plan_bytes;
    write(team::write_letter(letter));
  }
}

void address_seeds() {
  std::string why;
  if (param_set("drivers", "self,shm,sim", "seeds", &why) != Status::ok) g_failed = true;
  NiConfig config;
  config.self = own_identity();
  config.self.job = 1;
  config.self.rank = 1;
  config.size = config.local_size = 2;
  const auto ni = Ni::open(config, &why);
  if (!ni) {
    fprintf(stderr, "seeds: %s\n", why.c_str());
    g_failed = true;
    return;
  }
  std::byte own[Protocol::kAddressBytes];
  const size_t n = ni->protocol().address(own, sizeof(own));
  write_seed("address", '\0' + std::string(reinterpret_cast<const char*>(own), n));
  write_seed("address", std::string("\1\2\x70\0\1\x90\0\2", 8));
}

// Steps of shm_fuzz.cc: a put, a get, and gets and puts of the owner with an answer, all right.
void shm_seeds() {
  const std::string put("\4\x2f\1\12\0\4\0abcd", 11), get("\4\x3f\2\12\0\4\0abcd", 11);
  write_seed("shm", put);
  write_seed("shm", put + get + get);
  write_seed("shm", std::string("\2\0\3\0\0\0\4\x2f\3\0\0\4\0abcd", 17));
  write_seed("shm", std::string("\2\1\3\0\0\0\0\0\1\0\0", 11) + put);
}

void udp_seeds() {
  udp::Address address;
  address.number = 7;
  address.port = 4000;
  in6_addr host{};
  host.s6_addr[15] = 1;
  udp::add_host(&address, host);
  host.s6_addr[10] = host.s6_addr[11] = 0xff;
  udp::add_host(&address, host);
  std::byte bytes[udp::kAddressBytes];
  udp::write_address(address, bytes);
  write_seed("udp", std::string(reinterpret_cast<const char*>(bytes), sizeof(bytes)));
  for (const auto kind : {udp::Kind::data, udp::Kind::group, udp::Kind::ping, udp::Kind::pong}) {
    udp::Header header;
    header.kind = kind;
    header.from = 1;
    const size_t size = udp::write_header(header, bytes);
    write_seed("udp", std::string(reinterpret_cast<const char*>(bytes), size));
    write_seed("udp", std::string(1, char(2 * int(kind) - 1)) + std::string("\4\0abcd", 6));
  }
}

// Right ones of every kind, unchanged and changed.
void ucx_seeds() {
  const std::string filling(120, 'f');
  for (const char what : {1, 2, 3}) {
    write_seed("ucx", what + filling);
    write_seed("ucx", what + filling.substr(0, 50) + std::string("\4\0abcd\1\3\0\1", 10));
  }
  const std::string_view worker = "UCX's address";
  const auto address = ucx::seal(ucx::AddressHead{}, std::as_bytes(std::span(worker)));
  const auto key = ucx::seal(ucx::KeyHead{}, std::as_bytes(std::span(worker)), kKeyMax);
  for (const std::span<const std::byte> bytes :
       {std::span(address), std::span<const std::byte>(key)})
    write_seed("ucx",
               '\0' + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void param_seeds() {
  for (size_t i = 0; i < param_count(); ++i)
    write_seed("param", std::string(param_info(i).name) + "=" + param_info(i).default_text);
  write_seed("param", "eager_limit=64k");
  write_seed("param", "Fdrop=5%,seed=7,delay-max=200us,kill#100/peer=1,drop#3+/byte0=0x0d");
}

void tune_seeds() {
  write_seed("tune", tune_file_text({{"A, 2 processors", "today", {{"shm_ring_most", "1m", 0}}},
                                     {"B", "", {{"a", "1", 0}, {"b", "2", 0}}}}));
  write_seed("tune", "# text\r\n torii-tune 1\n[ X ]\n a=1\n\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: seeds DIRECTORY\n");
    return 2;
  }
  g_directory = argv[1];
  wire_seeds();
  step_seeds("protocol");
  step_seeds("link");
  step_seeds("group");
  step_seeds("card");
  step_seeds("hub");
  step_seeds("attach");
  step_seeds("multicast");
  step_seeds("team");
  step_seeds("segment");
  letter_seeds();
  address_seeds();
  shm_seeds();
  udp_seeds();
  ucx_seeds();
  param_seeds();
  tune_seeds();
  return g_failed ? 1 : 0;
}
