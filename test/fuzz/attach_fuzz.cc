// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// All that an emulator may say to a process that attaches: its welcome, the descriptors with it,
// and answers in the channel. Then it hangs up; whatever it said, all calls of the card return.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "core/base/abstract_socket.h"
#include "core/base/emulated.h"
#include "core/base/log.h"
#include "core/base/sealed_memory.h"
#include "drivers/process/process_card.h"
#include "fuzz/input.h"
#include "nic/emulator/channel.h"

using namespace torii;
using namespace torii::nic;
using fuzz::require;

namespace {

constexpr uint32_t kEndpoints = 4, kSharedBytes = 8192;

// A socket that listens for the whole run.
int listener() {
  static const Descriptor socket = [] {
    const std::string name = format_text("torii-attach-fuzz-%d", getpid());
    const AbstractAddress address(name);
    Descriptor made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    require(bind(made.get(), address.get(), address.bytes()) == 0 && listen(made.get(), 8) == 0,
            "a socket that listens");
    setenv(kFabricVariable, emulated_cluster_text({name, 2}).c_str(), 1);
    return made;
  }();
  return socket.get();
}

// Everything that it says is made before the process asks.
class Misbehaving {
 public:
  explicit Misbehaving(fuzz::Input& in) {
    const uint8_t right = in.byte();
    welcome_.magic = right & 1 ? channel::kMagic : in.take<uint32_t>();
    welcome_.status = right & 2 ? 0 : in.byte();
    welcome_.fabric = 7;
    welcome_.contexts = right & 4 ? 1 : in.byte();
    welcome_.endpoints = right & 4 ? kEndpoints : in.take<uint32_t>();
    welcome_.name = right & 4 ? make_name(1, 1) : in.take<uint32_t>();
    welcome_.node = right & 4 ? 1 : in.byte();
    welcome_.bar_bytes = right & 8 ? 16 : in.take<uint32_t>();
    welcome_.shared_bytes = right & 8 ? kSharedBytes : in.take<uint64_t>();
    welcome_.attach_error = in.byte();
    for (char& c : welcome_.text) c = 'x';
    count_ = right & 16 ? size_t{channel::kMemoryFd} : in.below(kPassedMax + 1);
    bytes_ = right & 32 ? sizeof(welcome_) : in.below(sizeof(welcome_));
    const uint32_t less = right & 64 ? 0 : in.below(8192);
    channel_ = make_sealed(sizeof(channel::Memory) - less);
    lent_ = right & 128 ? make_sealed(liveness_bytes(kEndpoints) + kSharedBytes)
                        : make_memory();  // of no size, and not sealed
    bell_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    Mapping memory;
    if (less > 0 || !memory.map(channel_.get(), 0, sizeof(channel::Memory))) return;
    auto& m = *reinterpret_cast<channel::Memory*>(memory.base());
    m.answered = in.byte() % 4;  // the questions of the process are 1, 2, 3
    m.status = in.byte();
    m.bytes = in.byte() & 1 ? 4 : in.take<uint32_t>();
    if (in.byte() & 1) m.head = in.take<uint32_t>();
    if (!(in.byte() & 1)) return;
    welcome_.memory_bytes = in.byte() & 1 ? 16 : in.take<uint32_t>();
    count_ += right & 16 ? 1 : 0;
  }
  void serve() const {
    const Descriptor socket(accept4(listener(), nullptr, nullptr, SOCK_CLOEXEC));
    channel::Hello hello;
    require(recv(socket.get(), &hello, sizeof(hello), 0) == sizeof(hello), "a whole hello");
    const int descriptors[] = {channel_.get(), lent_.get(), bell_.get(), bell_.get(), lent_.get()};
    static_cast<void>(
        send_message(socket.get(), &welcome_, bytes_, std::span(descriptors).first(count_)));
  }

 private:
  channel::Welcome welcome_{};
  size_t count_ = 0, bytes_ = 0;
  Descriptor channel_, lent_, bell_;
};

void use(Card& card) {
  uint32_t words[16] = {};
  card.write(0, words, sizeof(words));
  card.write32(4, 1);
  static_cast<void>(card.read32(0));
  card.read(0, words, sizeof(words));
  card.peek(0, words, sizeof(words));
  card.peek(4, words, 4);
  Control control;
  card.post(control);
  static_cast<void>(card.control(control, &control));
  uint64_t address = 0;
  static_cast<void>(card.map(words, sizeof(words), kCardReads, &address));
  card.unmap(address);
  for (uint32_t i = 0; i < card.liveness().endpoints(); i++)
    static_cast<void>(card.liveness().life(make_name(i, 1)));
  if (const auto shared = card.shared(); !shared.empty()) shared[0] = shared.back();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  listener();
  const Misbehaving peer(in);
  std::thread emulator([&] { peer.serve(); });
  std::string why;
  const std::unique_ptr<Card> card = attach_card("skeleton", 1, &why);
  emulator.join();
  require(card || !why.empty(), "a refusal without a reason");
  if (card) use(*card);
  return 0;
}
