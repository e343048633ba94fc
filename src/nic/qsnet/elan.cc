// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The Elan as its processes, its kernel driver and its cable see it.
#include <algorithm>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "nic/qsnet/input.h"

namespace torii::nic::qsnet {
namespace {

class Elan final : public Model {
 public:
  explicit Elan(const Board& board) : contexts_(board), dma_(contexts_), input_(contexts_, dma_) {}

  // The kernel driver loads the route table: any process may be a peer of the new one.
  void open(unsigned context, Name name, uint64_t shared_address) override {
    Process& process = contexts_.all[context];
    process.name = name;
    process.shared = shared_address;
    process.sdram.resize(kSdramBytes);
    dma_.load_routes();
  }
  bool idle(unsigned context) const override {
    const Process& process = contexts_.all[context];
    return process.commands == 0 && dma_.is_idle(process);
  }
  void gone(unsigned context) override {
    Process& process = contexts_.all[context];
    dma_.close(process);
    input_.close(process);
    contexts_.close(process);
  }

  void bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) override {
    Process& process = contexts_.all[context];
    if (at >= kSdram) {
      std::ranges::copy(bytes, &process.sdram[at - kSdram]);
      return;
    }
    for (; !bytes.empty(); bytes = bytes.subspan(4), at += 4) {
      const auto value = load_little<uint32_t>(bytes.data());
      if (at == kWake) {
        process.wakes = true;
        process.seen = value;
        contexts_.signal(process);
      } else if (at == kStartDma || at == kSetEvent) {
        process.commands++;
        contexts_.board.engine.after(kStepNs, [this, name = process.name, at, value] {
          Process* const started = contexts_.find(name);
          if (!started) return;
          started->commands--;
          at == kStartDma ? dma_.start(*started, value) : contexts_.set_event(*started, value);
        });
      } else {
        contexts_.refused++;
      }
    }
  }
  uint32_t bus_read(unsigned context, uint32_t at) override {
    if (at < kSdram) return at == kId ? kIdValue : 0;
    return load_little<uint32_t>(&contexts_.all[context].sdram[at - kSdram]);
  }

  Status control(unsigned context, const Control& in, Control* out) override {
    Process& process = contexts_.all[context];
    switch (in.call) {
      case kTrapped:
        if (process.traps.empty()) return Status::again;
        out->words[0] = process.traps.front();
        process.traps.pop_front();
        return Status::ok;
      case kRoute:
        return dma_.load_route(process, static_cast<Name>(in.words[0]));
      case kSweep:
        dma_.sweep(process);
        input_.sweep(process);
        return Status::ok;
      case kJoin:
      case kLeave:
      case kMember:
        return contexts_.board.group_call(static_cast<GroupCall>(in.call - kJoin), context, in,
                                          out);
      default:
        return Status::unsupported;
    }
  }

  void arrive(Packet&& packet) override { input_.arrive(std::move(packet)); }
  void port_ready() override {
    input_.send_tokens();
    dma_.pump();
  }
  std::string report() const override {
    return format_text(
        "%llu packets out, %llu in, %llu sent again, %llu without a token, %llu traps, %llu table "
        "walks, %llu faults, %llu refused",
        dma_.packets, input_.packets, dma_.resends, dma_.lost, dma_.traps, contexts_.walks,
        contexts_.faults, contexts_.refused);
  }

 private:
  static constexpr uint64_t kStepNs = 400;  // of the microcode processor: an assumption

  Contexts contexts_;
  DmaEngine dma_;
  Input input_;
};

}  // namespace

std::unique_ptr<Model> make_model(const Board& board) { return std::make_unique<Elan>(board); }

}  // namespace torii::nic::qsnet
