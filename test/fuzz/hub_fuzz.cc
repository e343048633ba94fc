// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// What a process sends by its Nectar board: items for the HUBs and for the firmware of other
// boards, right, nearly right or arbitrary, and commands for its own. Two processes with a driver
// each share the HUBs with it, and may be told anything, as boards believe each other. Those that
// come after all of these reach each other.
#include <memory>
#include <vector>

#include "core/base/log.h"
#include "drivers/nectar/nectar.h"
#include "fuzz/input.h"
#include "nic/fabric.h"
#include "nic/nectar/regs.h"
#include "recorder.h"

using namespace torii;
using namespace torii::nic;
using namespace torii::nic::nectar;
using fuzz::require;

namespace {

constexpr uint32_t kOutAt = kDataRam + 0x70000, kInAt = kDataRam + 0x78000;
constexpr uint64_t kMs = 1000000;

class World {
 public:
  explicit World(uint8_t shape) {
    FabricOptions options;
    options.card = "nectar";
    options.nodes = 3;
    options.topology = shape & 1 ? "star" : "pair:2";
    fabric_ = Fabric::make(options, &why_);
    require(fabric_ != nullptr, "a fabric");
    open_others();
    card_ = fabric_->open(0, &why_);
    require(card_ != nullptr, "a process");
  }

  void step(fuzz::Input& in) {
    switch (in.byte() % 8) {
      case 0:
        return boot(in.byte());
      case 1:
        return command(in);
      case 2:
        card_->write32(dma(kFiberIn, kAddress), kInAt);
        card_->write32(dma(kFiberIn, kLength), in.below(9000));
        return card_->write32(dma(kFiberIn, kControl), kStart);
      case 3:
        return card_->write32(kRegisters + in.below(16) * 4, in.take<uint32_t>());
      case 4:
        return send(in, commands(in), {});
      case 5:
        return send(in, commands(in), in.text(2000));
      default:
        return send(in, commands(in), frame(in));
    }
  }
  void look(uint64_t ns) {
    fabric_->engine().run_to(fabric_->engine().now_ns() + ns);
    for (const auto& end : others_) end->driver->poll(fabric_->engine().now_ns(), 64);
  }
  void end() {
    card_ = nullptr;
    others_.clear();
    look(50 * kMs);
    open_others();
    test::End &a = *others_[0], &b = *others_[1];
    const PeerId to_b = a.connect(b), to_a = b.connect(a);
    const std::string text(3000, 'x');
    bool a_sent = false, b_sent = false, a_has = false, b_has = false;
    const auto has = [](const test::End& end, const std::string& what) {
      for (const auto& packet : end.sink.packets)
        if (packet.bytes == what) return true;
      return false;
    };
    for (int i = 0; i < 10000 && !(a_has && b_has); i++) {
      a_sent = a_sent || a.send(to_b, "short");
      b_sent = b_sent || b.send(to_a, "long", text);
      look(kMs / 10);
      a_has = has(a, "long" + text);
      b_has = has(b, "short");
    }
    require(a_has && b_has, "later processes do not reach each other");
  }

 private:
  void open_others() {
    for (const uint32_t node : {1, 2}) {
      others_.push_back(std::make_unique<test::End>([&](const DriverEnv& env) {
        return open_nectar(fabric_->open(node, &why_), env, &why_);
      }));
      require(others_.back()->driver != nullptr, why_.c_str());
    }
  }
  void boot(uint8_t protocol) {
    Control out;
    static_cast<void>(card_->control({kBoot, {uint64_t{protocol} % 4}}, &out));
  }
  // Of the mailboxes.
  void command(fuzz::Input& in) {
    const Entry entry{in.byte() % 4u, in.byte() % 70u, in.below(9000), peer(in)};
    card_->write(kDataRam + offsetof(Shared, command) + commands_++ % kCommands * sizeof(entry),
                 &entry, sizeof(entry));
    card_->write32(kDataRam + offsetof(Shared, commands), commands_);
  }
  Name peer(fuzz::Input& in) {
    const uint8_t which = in.byte();
    if (which % 4 == 3) return in.take<uint32_t>();
    return make_name(which % 4, 1);
  }
  std::string commands(fuzz::Input& in) {
    std::string out;
    for (unsigned n = in.byte() % 6; n > 0; n--) {
      const uint8_t opcode = in.byte();
      out += static_cast<char>(opcode & 0x80 ? opcode : 1 + opcode % kSetReady);
      out += static_cast<char>(opcode & 0x40 ? kEveryHub : in.byte() % 3);
      out += static_cast<char>(in.byte() % 20);
    }
    return out;
  }
  // As the firmware writes it: kind, count and sender, the targets with their numbers, the bytes.
  std::string frame(fuzz::Input& in) {
    std::string out;
    const auto add = [&](uint32_t word) {
      out.append(reinterpret_cast<const char*>(&word), sizeof(word));
    };
    const uint8_t wrong = in.byte(), count = in.byte() % 4;
    add(in.byte() % 3u);
    add(wrong & 1 ? in.take<uint32_t>() : count);
    add(peer(in));
    for (uint8_t i = 0; i < count; i++) {
      add(peer(in));
      add(wrong & 2 ? in.take<uint32_t>() : in.byte() % 4u);
    }
    return out + in.text(1200);
  }
  void send(fuzz::Input& in, const std::string& commands, const std::string& data) {
    std::string bytes = commands + data;
    const auto length = static_cast<uint32_t>(bytes.size());
    const uint32_t is_packet = data.empty() ? 0 : kPacket | (in.byte() & 1 ? 0 : +kCloseAll);
    bytes.resize((bytes.size() + 3) / 4 * 4);
    card_->write(kOutAt, bytes.data(), bytes.size());
    card_->write32(dma(kFiberOut, kAddress), kOutAt);
    card_->write32(dma(kFiberOut, kLength), length);
    card_->write32(dma(kFiberOut, kControl),
                   kStart | is_packet | static_cast<uint32_t>(commands.size()) << kCommandShift);
  }

  std::string why_;
  std::unique_ptr<Fabric> fabric_;
  std::vector<std::unique_ptr<test::End>> others_;
  std::unique_ptr<Card> card_;
  uint32_t commands_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  set_log_level(LogLevel::error);
  fuzz::Input in(data, size);
  World world(in.byte());
  while (!in.empty()) {
    world.step(in);
    world.look(in.byte() * 1000u);
  }
  world.end();
  return 0;
}
