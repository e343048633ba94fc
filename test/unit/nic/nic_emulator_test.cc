// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Cards in another process: attaching, frames, DMA to a process's own memory, sleeping; the end of
// a process and of the emulator; processes that write nonsense.
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/base/abstract_socket.h"
#include "core/base/emulated.h"
#include "core/base/log.h"
#include "core/base/sealed_memory.h"
#include "drivers/myrinet/myrinet.h"
#include "drivers/nectar/nectar.h"
#include "drivers/process/process_card.h"
#include "drivers/qsnet/qsnet.h"
#include "drivers/sci/sci.h"
#include "drivers/skeleton/skeleton.h"
#include "drivers/tnet/tnet.h"
#include "nic/emulator/channel.h"
#include "nic/emulator/emulator.h"
#include "nic/skeleton/regs.h"
#include "recorder.h"

namespace torii::nic {
namespace {

using test::End;
using test::Recorder;

constexpr int64_t kSoonMs = 10000;

int64_t now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000 + t.tv_nsec / 1000000;
}

constexpr const char* kCards[] = {"skeleton", "tnet", "myrinet", "qsnet", "nectar", "sci"};

// An emulator in a thread of this process, and the variable that leads to it.
class Fixture {
 public:
  explicit Fixture(uint32_t nodes = 2, const char* card = "skeleton") {
    FabricOptions options;
    options.card = card;
    options.nodes = nodes;
    std::string why;
    emulator = Emulator::make(options, &why);
    if (!emulator) ADD_FAILURE() << why;
    publish();
    thread_ = std::thread([this] { emulator->serve(stop_.get(), [] { return false; }); });
  }
  ~Fixture() {
    stop();
    unsetenv(kFabricVariable);
  }
  void stop() {
    const uint64_t one = 1;
    if (!thread_.joinable()) return;
    EXPECT_EQ(write(stop_.get(), &one, sizeof(one)), ssize_t(sizeof(one)));
    thread_.join();
  }
  void publish() const {
    const std::string text =
        emulated_cluster_text({emulator->socket(), emulator->fabric().nodes()});
    setenv(kFabricVariable, text.c_str(), 1);
  }
  uint64_t cpu_ns() {
    clockid_t clock;
    timespec t{};
    EXPECT_EQ(pthread_getcpuclockid(thread_.native_handle(), &clock), 0);
    clock_gettime(clock, &t);
    return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
  }

  std::unique_ptr<Emulator> emulator;

 private:
  Descriptor stop_{eventfd(0, EFD_CLOEXEC)};
  std::thread thread_;
};

End::Open on(uint32_t node, const std::string& name = "skeleton") {
  return [=](const DriverEnv& env) -> std::unique_ptr<Driver> {
    std::string why;
    std::unique_ptr<Card> card = attach_card(name.c_str(), node, &why);
    EXPECT_TRUE(card) << why;
    if (!card) return nullptr;
    if (name == "qsnet") return open_qsnet(std::move(card), env, &why);
    if (name == "tnet") return open_tnet(std::move(card), env, &why);
    if (name == "myrinet") return open_myrinet(std::move(card), env, &why);
    if (name == "nectar") return open_nectar(std::move(card), env, &why);
    if (name == "sci") return open_sci(std::move(card), env, &why);
    return open_skeleton(std::move(card), env, &why);
  };
}

// Polls until that holds. False: it never did.
bool run(std::initializer_list<End*> ends, const std::function<bool()>& until) {
  const int64_t deadline = now_ms() + kSoonMs;
  while (!until()) {
    if (now_ms() > deadline) return false;
    for (End* end : ends) end->driver->poll(uint64_t(now_ms()) * 1000000u, 64);
    sched_yield();
  }
  return true;
}

std::string refusal(const char* card, uint32_t node) {
  std::string why;
  EXPECT_FALSE(attach_card(card, node, &why));
  return why;
}

TEST(NicEmulator, FramesPassAndCardsAreGivenBack) {
  Fixture fixture(3);
  End a(on(0)), b(on(2));
  ASSERT_TRUE(a.driver && b.driver);
  const PeerId to_b = a.connect(b), to_a = b.connect(a);
  ASSERT_NE(to_b, kNoPeer);
  for (int i = 0; i < 500; i++) {
    const std::string body(size_t(i * 7 % 2000), char('a' + i % 26));
    ASSERT_TRUE(run({&a, &b}, [&] { return a.send(to_b, "head", body); }));
  }
  ASSERT_TRUE(run({&a, &b}, [&] { return b.sink.packets.size() == 500; }));
  for (int i = 0; i < 500; i++)
    ASSERT_EQ(b.sink.packets[size_t(i)].bytes,
              "head" + std::string(size_t(i * 7 % 2000), char('a' + i % 26)));
  // A frame that was sent before the end arrives before it.
  ASSERT_TRUE(b.send(to_a, "last"));
  b.driver.reset();
  ASSERT_TRUE(run({&a}, [&] { return !a.sink.downs.empty(); }));
  EXPECT_EQ(a.sink.downs[0].status, Status::peer_closed);
  ASSERT_EQ(a.sink.packets.size(), 1u);
  End again(on(2));
  ASSERT_TRUE(again.driver) << "its context is not free";
  EXPECT_NE(a.connect(again), kNoPeer);
}

TEST(NicEmulator, AttachingIsRefusedWithTheRemedy) {
  Fixture fixture(2);
  std::string why;
  const std::unique_ptr<Card> card = attach_card("skeleton", 1, &why);
  ASSERT_TRUE(card) << why;
  EXPECT_EQ(card->info().node, 1u);
  EXPECT_NE(refusal("skeleton", 1).find("use more nodes"), why.npos);
  EXPECT_NE(refusal("tnet", 0).find("torii-fabric --card tnet"), why.npos);
  EXPECT_NE(refusal("skeleton", 2).find("no emulated node 2; use 0 to 1"), why.npos);
  setenv(kFabricVariable, "torii-fabric-nobody,2", 1);
  EXPECT_NE(refusal("skeleton", 0).find("@torii-fabric-nobody"), why.npos);
  for (const char* wrong : {"", "x", "x,", "x,0", "x,2y", ",2", "x,99999999"}) {
    setenv(kFabricVariable, wrong, 1);
    EXPECT_NE(refusal("skeleton", 0).find("expected SOCKET,NODES"), why.npos) << wrong;
  }
  unsetenv(kFabricVariable);
  EXPECT_NE(refusal("skeleton", 0).find("under torii-fabric"), why.npos);
  fixture.publish();
  EXPECT_TRUE(attach_card("skeleton", kNoEmulatedNode, &why)) << why;
}

TEST(NicEmulator, RanksAreSpreadInBlocks) {
  EXPECT_EQ(emulated_node(3, 8), kNoEmulatedNode);
  setenv(kFabricVariable, "x,4", 1);
  const auto nodes = [](uint32_t size) {
    std::string out;
    for (uint32_t rank = 0; rank < size; rank++) out += std::to_string(emulated_node(rank, size));
    return out;
  };
  EXPECT_EQ(nodes(8), "00112233");
  EXPECT_EQ(nodes(4), "0123");
  EXPECT_EQ(nodes(2), "02");
  EXPECT_EQ(nodes(1), "0");
  EXPECT_EQ(nodes(6), "001223");
  unsetenv(kFabricVariable);
}

// Its own memory, mapped for the card, and not the memory lent to it.
TEST(NicEmulator, TheCardReadsTheMemoryOfItsProcess) {
  Fixture fixture(2);
  End b(on(1));
  std::string why, text = "text in memory of the process";
  const std::unique_ptr<Card> card = attach_card("skeleton", 0, &why);
  ASSERT_TRUE(card) << why;
  uint64_t address = 0;
  const Status status = card->map(text.data(), text.size(), kCardReads, &address);
  if (status == Status::no_memory) GTEST_SKIP() << "no cross-memory attach here";
  ASSERT_EQ(status, Status::ok);
  Name to;
  std::memcpy(&to, b.address().data() + 8, sizeof(to));
  auto& shared = *reinterpret_cast<skeleton::Shared*>(card->shared().data());
  const auto bytes = uint32_t(text.size());
  shared.descriptors[0] = {uint32_t(address), bytes, to, 0};
  shared.descriptors[1] = {uint32_t(address) + 8, bytes, to, 0};  // beyond what is mapped
  card->write32(skeleton::kDoorbell, 2);
  ASSERT_TRUE(run({&b}, [&] { return shared.completions[1].number == 2; }));
  ASSERT_TRUE(run({&b}, [&] { return !b.sink.packets.empty(); }));
  card->unmap(address);
  shared.descriptors[2] = {uint32_t(address), bytes, to, 0};
  card->write32(skeleton::kDoorbell, 3);
  ASSERT_TRUE(run({&b}, [&] { return shared.completions[2].number == 3; }));
  EXPECT_EQ(b.sink.packets.size(), 1u) << "memory that is not mapped was read";
  EXPECT_EQ(b.sink.packets[0].bytes, text);
}

TEST(NicEmulator, ProcessesAndTheEmulatorSleep) {
  Fixture fixture(2);
  End a(on(0)), b(on(1));
  const PeerId to_b = a.connect(b);
  int fd = -1;
  ASSERT_TRUE(run({&a, &b}, [&] { return b.driver->arm(&fd) == Status::ok; }));
  pollfd arrival{fd, POLLIN, 0};
  const uint64_t before = fixture.cpu_ns();
  EXPECT_EQ(poll(&arrival, 1, 200), 0) << "nothing was sent";
  EXPECT_LT(fixture.cpu_ns() - before, 50'000'000u) << "the emulator does not sleep";
  ASSERT_TRUE(a.send(to_b, "wake"));
  EXPECT_EQ(poll(&arrival, 1, kSoonMs), 1);
  EXPECT_TRUE(run({&b}, [&] { return b.sink.packets.size() == 1; }));
}

// Each frame wakes who sleeps, however the two sides are interleaved.
TEST(NicEmulator, NoFrameIsMissedByWhoSleeps) {
  for (const char* card : kCards) {
    Fixture fixture(2, card);
    End a(on(0, card)), b(on(1, card));
    const PeerId to_b = a.connect(b);
    const std::string bodies[] = {std::string(1500, 'x'), "", ""};  // lent until they are done
    for (size_t i = 0; i < 300; i++) {
      const std::string head = std::to_string(i), &body = bodies[i % 3];
      ASSERT_TRUE(run({&a}, [&] { return a.send(to_b, head, body, i + 1); })) << card;
      while (b.sink.packets.size() <= i) {
        int fd = -1;
        if (b.driver->arm(&fd) == Status::ok) {
          pollfd arrival{fd, POLLIN, 0};
          ASSERT_TRUE(run({&a}, [&] { return poll(&arrival, 1, 0) == 1; })) << card << ' ' << i;
        }
        b.driver->poll(uint64_t(now_ms()) * 1000000u, 64);
      }
      ASSERT_TRUE(run({&a}, [&] { return a.sink.dones.size() > i; })) << card << ' ' << i;
      ASSERT_EQ(b.sink.packets[i].bytes, head + body) << card;
    }
  }
}

TEST(NicEmulator, MemoryForReadersIsWrittenByItsMakerOnly) {
  Mapping writer, reader;
  const Descriptor file = make_sealed_for_readers(4096, "test", &writer);
  ASSERT_TRUE(file);
  struct stat about;
  EXPECT_TRUE(sealed(file.get(), &about));
  EXPECT_FALSE(reader.map(file.get(), 0, 4096));
  EXPECT_EQ(pwrite(file.get(), "x", 1, 0), -1);
  ASSERT_TRUE(reader.map(file.get(), 0, 4096, false));
  writer.base()[5] = std::byte{7};
  EXPECT_EQ(reader.base()[5], std::byte{7});
  EXPECT_FALSE(make_sealed_for_readers(0, "test", &writer));
}

TEST(NicEmulator, LoadsOfTheMemoryOfACardAskNobody) {
  Fixture fixture(2, "myrinet");
  std::string why;
  const std::unique_ptr<Card> card = attach_card("myrinet", 0, &why);
  ASSERT_TRUE(card) << why;
  const uint32_t words[] = {7, 8};
  card->write(0x20000, words, sizeof(words));
  EXPECT_EQ(card->read32(0x20000), 7u) << "a load has not waited for the store";
  fixture.stop();
  EXPECT_EQ(card->read32(0x20004), 8u);
  card->write32(0x20000, 9);
  uint32_t seen[2] = {};
  card->peek(0x20000, seen, sizeof(seen));
  EXPECT_EQ(seen[0], 7u) << "nobody has carried out the store";
  EXPECT_EQ(seen[1], 8u);
}

// A connection as a process has it, without a card of its own.
struct Raw {
  explicit Raw(const std::string& name)
      : socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const AbstractAddress address(name);
    EXPECT_EQ(connect(socket.get(), address.get(), address.bytes()), 0);
  }
  // Returns the bytes that came in answer; 0: the other end has hung up.
  ssize_t say(const void* bytes, size_t n) {
    EXPECT_TRUE(send_message(socket.get(), bytes, n, {}));
    pollfd answer{socket.get(), POLLIN, 0};
    EXPECT_EQ(poll(&answer, 1, kSoonMs), 1);
    size_t count = 0;
    const ssize_t got =
        receive_message(socket.get(), &welcome, sizeof(welcome), descriptors, &count);
    if (count > 0 && count == channel::descriptors(welcome)) {
      EXPECT_TRUE(memory.map(descriptors[channel::kChannelFd].get(), 0, sizeof(channel::Memory)));
    }
    return got;
  }
  channel::Memory& shared() { return *reinterpret_cast<channel::Memory*>(memory.base()); }
  void ring() {
    const uint64_t one = 1;
    EXPECT_EQ(write(descriptors[channel::kDoorbellFd].get(), &one, sizeof(one)),
              ssize_t(sizeof(one)));
  }
  bool is_cut_off() {
    pollfd ended{socket.get(), POLLIN, 0};
    return poll(&ended, 1, kSoonMs) == 1 && (ended.revents & POLLHUP);
  }

  Descriptor socket;
  channel::Welcome welcome{};
  Descriptor descriptors[kPassedMax];
  Mapping memory;
};

channel::Hello good_hello(uint32_t node) {
  channel::Hello hello{};
  hello.magic = channel::kMagic;
  hello.node = node;
  std::strcpy(hello.card, "skeleton");
  return hello;
}

TEST(NicEmulator, NonsenseAtTheDoorIsTurnedAway) {
  Fixture fixture(2);
  const std::string& name = fixture.emulator->socket();
  channel::Hello hello = good_hello(0);
  EXPECT_EQ(Raw(name).say(&hello, sizeof(hello) - 1), 0);
  Raw(name).socket.reset();
  hello.magic++;
  Raw other(name);
  ASSERT_EQ(other.say(&hello, sizeof(hello)), ssize_t(sizeof(channel::Welcome)));
  EXPECT_NE(std::string(other.welcome.text).find("version"), std::string::npos);
  hello = good_hello(0);
  std::memset(hello.card, 'x', sizeof(hello.card));
  Raw nameless(name);
  ASSERT_EQ(nameless.say(&hello, sizeof(hello)), ssize_t(sizeof(channel::Welcome)));
  EXPECT_NE(nameless.welcome.status, 0u);
  // It says a false cookie: it has a card, but its memory is not touched.
  hello = good_hello(1);
  hello.cookie_at = 8;
  Raw process(name);
  ASSERT_EQ(process.say(&hello, sizeof(hello)), ssize_t(sizeof(channel::Welcome)));
  EXPECT_EQ(process.welcome.status, 0u);
  EXPECT_NE(process.welcome.attach_error, 0);
}

// Each is cut off, and dead for the others, who go on.
TEST(NicEmulator, NonsenseInTheRingCutsItsProcessOff) {
  set_log_level(LogLevel::error);
  Fixture fixture(3);
  End a(on(0)), b(on(1));
  const PeerId to_b = a.connect(b);
  using channel::Kind;
  using channel::Record;
  constexpr uint32_t kMuch = channel::kPieceMax + 8;
  const std::pair<Record, uint32_t> malformed[] = {
      {{Kind::store, 0, 4, 0}, 1},                           // bytes that are no records
      {{Kind::store, 0, 4, 0}, channel::kRingBytes + 8},     // more than the ring has
      {{Kind::store, 0, 64, 0}, 24},                         // a payload that is not there
      {{Kind::store, 0, kMuch, 0}, sizeof(Record) + kMuch},  // one that is too long
      {{Kind::store, 2, 4, 0}, 24},                          // offsets and lengths in between
      {{Kind::store, 0, 3, 0}, 24},
      {{Kind::load, 1, 4, 1}, 16},
      {{Kind::load, 0, ~0u, 1}, 16},
      {{Kind::control, 0, 8, 1}, 24},
      {{Kind::map, 0, 8, 1}, 24},
      {{static_cast<Kind>(77), 0, 0, 0}, 16}};
  for (const auto& [record, moved] : malformed) {
    const channel::Hello hello = good_hello(2);
    Raw process(fixture.emulator->socket());
    ASSERT_EQ(process.say(&hello, sizeof(hello)), ssize_t(sizeof(channel::Welcome)));
    ASSERT_EQ(process.welcome.status, 0u) << process.welcome.text;
    std::memcpy(process.shared().ring, &record, sizeof(record));
    process.shared().tail = moved;
    process.ring();
    EXPECT_TRUE(process.is_cut_off()) << int(record.kind) << " " << moved;
    ASSERT_TRUE(a.send(to_b, "go on"));
    ASSERT_TRUE(run({&a, &b}, [&] { return !b.sink.packets.empty(); }));
    b.sink.packets.clear();
  }
  // Accesses beside the registers are no nonsense: they vanish.
  const channel::Hello hello = good_hello(2);
  Raw stranger(fixture.emulator->socket());
  ASSERT_EQ(stranger.say(&hello, sizeof(hello)), ssize_t(sizeof(channel::Welcome)));
  const Record beside{Kind::load, 0xfffffffc, 4, 5};
  std::memcpy(stranger.shared().ring, &beside, sizeof(beside));
  stranger.shared().tail = sizeof(beside);
  stranger.ring();
  ASSERT_TRUE(run({&a, &b}, [&] { return stranger.shared().answered == 5; }));
  uint32_t value;
  std::memcpy(&value, stranger.shared().answer, sizeof(value));
  EXPECT_EQ(value, ~0u);
}

// Begun before there are threads. Hears the variable of the emulator, or tells it.
class Child {
 public:
  explicit Child(const std::function<void(int in, int out)>& program) {
    int to[2], from[2];
    EXPECT_EQ(pipe(to), 0);
    EXPECT_EQ(pipe(from), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(to[1]);
      close(from[0]);
      program(to[0], from[1]);
      _exit(0);
    }
    close(to[0]);
    close(from[1]);
    in_.reset(to[1]);
    out_.reset(from[0]);
  }
  ~Child() { end(); }
  void say(const std::string& text) {
    EXPECT_EQ(write(in_.get(), text.data(), text.size()), ssize_t(text.size()));
  }
  std::string hear() {
    char text[512];
    const ssize_t n = read(out_.get(), text, sizeof(text));
    return {text, size_t(std::max<ssize_t>(n, 0))};
  }
  void stop() {
    int status;
    EXPECT_EQ(kill(pid_, SIGSTOP), 0);
    EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
  }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
  Descriptor in_, out_;
};

void one_dies(const char* card) {
  Child child([card](int in, int out) {
    char text[512] = {};
    if (read(in, text, sizeof(text) - 1) <= 0) return;
    setenv(kFabricVariable, text, 1);
    End end(on(1, card));
    const std::vector<std::byte> address = end.address();
    if (write(out, address.data(), address.size()) > 0) pause();
  });
  Fixture fixture(2, card);
  child.say(getenv(kFabricVariable));
  // Short: a card that sends long ones again leaves the thread sanitizer no time for anything else.
  const std::string text = child.hear(), body(200, 'x');
  End a(on(0, card));
  PeerId peer = kNoPeer;
  std::string why;
  ASSERT_EQ(a.driver->connect(std::as_bytes(std::span(text)), &peer, &why), Status::ok) << why;
  // Its completions fill up: some frames wait on the network when it dies.
  for (int i = 0, refused = 0; i < 2000 && refused < 50; i++) {
    refused += !a.send(peer, "frame", body, 1);
    a.driver->poll(1, 64);
  }
  child.end();
  ASSERT_TRUE(run({&a}, [&] { return !a.sink.downs.empty(); }));
  EXPECT_EQ(a.sink.downs[0].status, Status::peer_dead);
  ASSERT_TRUE(run({&a}, [until = now_ms() + 50] { return now_ms() > until; }));
  EXPECT_EQ(a.sink.downs.size(), 1u);
}

TEST(NicEmulator, ADeadProcessIsToldOnceAndByName) {
  for (const char* const card : kCards) {
    SCOPED_TRACE(card);
    one_dies(card);
  }
}

// An emulator in a process of its own, which says where it is.
std::function<void(int, int)> emulator_of(const char* card) {
  return [card](int, int out) {
    FabricOptions options;
    options.card = card;
    std::string why;
    const std::unique_ptr<Emulator> emulator = Emulator::make(options, &why);
    if (!emulator) return;
    const std::string place = emulated_cluster_text({emulator->socket(), 2});
    if (write(out, place.data(), place.size()) < 0) return;
    const Descriptor never(eventfd(0, EFD_CLOEXEC));
    emulator->serve(never.get(), [] { return true; });
  };
}

// `sent`: how a frame to such a peer ends. Most drivers have copied it by then, and are done.
void emulator_dies(const char* card, Status sent) {
  Child child(emulator_of(card));
  setenv(kFabricVariable, child.hear().c_str(), 1);
  set_log_level(LogLevel::error);
  End a(on(0, card)), b(on(1, card));
  ASSERT_TRUE(a.driver && b.driver);
  const PeerId to_b = a.connect(b);
  int fd = -1;
  ASSERT_TRUE(run({&a, &b}, [&] { return a.driver->arm(&fd) == Status::ok; }));
  std::string why;
  child.end();
  pollfd woken{fd, POLLIN, 0};
  EXPECT_EQ(poll(&woken, 1, kSoonMs), 1) << "a sleeping process is not woken";
  ASSERT_TRUE(a.send(to_b, "into the void", "", 7));
  ASSERT_TRUE(run({&a}, [&] { return !a.sink.downs.empty(); }));
  EXPECT_EQ(a.sink.downs[0].status, Status::peer_dead);
  ASSERT_EQ(a.sink.dones.size(), 1u);
  EXPECT_EQ(a.sink.dones[0].status, sent);
  PeerId peer;
  EXPECT_NE(a.driver->connect(b.address(), &peer, &why), Status::ok);
  unsetenv(kFabricVariable);
}

TEST(NicEmulator, TheEndOfTheEmulatorIsTheEndOfAllPeers) {
  for (const char* const card : kCards) {
    SCOPED_TRACE(card);
    emulator_dies(card, card == std::string("skeleton") ? Status::io_error : Status::ok);
  }
}

// The card can no longer tell what became of its frames, and loads of its registers give ones.
TEST(NicEmulator, TheEndOfTheEmulatorEndsTheFramesThatItsCardHas) {
  Child child(emulator_of("myrinet"));
  setenv(kFabricVariable, child.hear().c_str(), 1);
  set_log_level(LogLevel::error);
  End a(on(0, "myrinet")), b(on(1, "myrinet"));
  ASSERT_TRUE(a.driver && b.driver);
  const PeerId to_b = a.connect(b);
  ASSERT_NE(b.connect(a), kNoPeer);
  child.stop();
  for (const uint64_t cookie : {1, 2, 3}) ASSERT_TRUE(a.send(to_b, "into the void", "", cookie));
  child.end();
  ASSERT_TRUE(run({&a, &b}, [&] { return !a.sink.downs.empty() && !b.sink.downs.empty(); }));
  EXPECT_EQ(a.sink.downs[0].status, Status::peer_dead);
  EXPECT_EQ(a.sink.downs[0].dones_before, 3u);
  ASSERT_EQ(a.sink.dones.size(), 3u);
  for (const Recorder::Done& done : a.sink.dones) EXPECT_EQ(done.status, Status::io_error);
  EXPECT_TRUE(a.driver->paths()->delivered());
  int fd = -1;
  EXPECT_EQ(a.driver->arm(&fd), Status::ok) << "a process that waits does not sleep";
  unsetenv(kFabricVariable);
}

TEST(NicEmulator, AFullChannelIsGivenUpWhenTheEmulatorEnds) {
  Child child(emulator_of("skeleton"));
  setenv(kFabricVariable, child.hear().c_str(), 1);
  std::string why;
  std::unique_ptr<Card> card = attach_card("skeleton", 0, &why);
  ASSERT_TRUE(card) << why;
  child.stop();
  const uint32_t words[4] = {};
  for (uint32_t n = 0; n < channel::kRingBytes; n += sizeof(channel::Record) + sizeof(words))
    card->write(0, words, sizeof(words));
  std::atomic<bool> closed{false};
  std::thread closing([&] {
    card.reset();
    closed = true;
  });
  EXPECT_TRUE(run({}, [until = now_ms() + 100] { return now_ms() > until; }));
  EXPECT_FALSE(closed) << "the channel was not full";
  child.end();
  const bool ends = run({}, [&] { return closed.load(); });
  EXPECT_TRUE(ends) << "it waits for ever";
  if (ends) {
    closing.join();
  } else {
    closing.detach();
  }
  unsetenv(kFabricVariable);
}

}  // namespace
}  // namespace torii::nic
