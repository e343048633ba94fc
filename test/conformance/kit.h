// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The conformance kit: what every driver must do, as cases over any driver. A case is chosen by
// the capabilities that the driver declares, and fails if a declaration is not true. Time is
// virtual (poll's argument) except where another process takes part.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "drivers/interfaces.h"

namespace torii::kit {

// The flags that most cases need of a driver.
inline constexpr uint32_t kSure = kReliable;

// A driver to test.
struct Rig {
  std::string name;
  // Opens one endpoint. All endpoints of one test can reach each other.
  std::function<std::unique_ptr<Driver>(const DriverEnv& env, std::string* why)> open;
  // Called before each case: a new fabric, if there is one.
  std::function<void()> reset = [] {};
  // Sudden death of an endpoint in this process; empty if that cannot be done.
  std::function<void(Driver& driver)> kill;
  // Tells the driver that the addresses have other memory now; empty if it notices by itself.
  std::function<void(void* base, size_t bytes)> remap;
  bool take_turns = true;      // as in DriverEnv; one thread drives all endpoints
  bool only_self = false;      // an endpoint can reach only itself
  bool other_process = false;  // endpoints in different processes can reach each other
  // Its library reads clocks, has threads, and does not live on after a fork: time is real, and the
  // other process is this program executed once more (serve()).
  bool own_clock = false;
  // A sender may take a peer that is closing for dead: TCP's reset overtakes the last words.
  bool resets = false;
  bool sealed = false;  // it notices any change of an address or a key
  uint64_t seed = 1;
  uint64_t frames = 1500;  // each way, in the cases that look for rare faults
};

// Bytes with one bit changed.
std::vector<std::byte> flipped(std::span<const std::byte> bytes, size_t bit);

// One endpoint under test. Checks at every upcall what always holds: upcalls only inside poll(),
// done() once per accepted cookie, peer_down() once per peer, after its cookies, if declared.
class Node final : public Sink {
 public:
  struct Frame {
    PeerId from;
    std::string bytes;
    uint32_t sender = kNoSender;
  };

  explicit Node(const Rig& rig);
  Driver& driver() { return *driver_; }
  const DriverCaps& caps() const { return driver_->caps(); }
  const Counters& counters() const { return counters_; }
  bool has(uint32_t flags) const { return (caps().flags & flags) == flags; }
  std::vector<std::byte> address();
  PeerId connect(Node& to);  // fails the test if that fails
  // Sends one frame; true if taken. The body must stay in place if it is longer than inline_max.
  bool send(PeerId to, std::string_view head, std::string_view body = {}, uint64_t cookie = 0);
  bool send(const Tx& tx) { return send_batch({&tx, 1}) == 1; }
  size_t send_batch(std::span<const Tx> batch);
  // The same by send_short(); `frame` has at least 16 bytes.
  bool send_short(PeerId to, std::string_view frame);
  Status move(bool write, const Rma& rma);  // put or get
  Status atomic(const RemoteAtomic& atomic);
  unsigned poll(uint64_t now_ns, unsigned budget = 64);
  void close();  // closes the driver; what it has not completed is forgotten
  uint64_t new_cookie() { return ++last_cookie_ * 0x9e3779b97f4a7c15u; }

  void packet(PeerId from, std::span<const std::byte> frame) override;
  void packets(std::span<Packet> all) override;
  void done(uint64_t cookie, Status status) override;
  void peer_down(PeerId peer, Status status) override;

  std::vector<Frame> frames;
  std::map<uint64_t, Status> dones;
  std::map<PeerId, Status> downs;
  std::map<uint64_t, PeerId> pending;  // accepted cookies not yet done
  std::function<void(PeerId, const std::string&)> on_packet;
  std::function<void(std::span<const std::byte>)> on_frame;  // the same, where the driver has it

 private:
  void check_upcall(const char* name);
  const Region* register_local(std::span<const iovec> pieces, uint64_t bytes, uint64_t cookie,
                               bool lent);
  void deregister_local(uint64_t cookie);

  Counters counters_;
  bool in_poll_ = false;
  unsigned looks_ = 0;
  uint64_t last_cookie_ = 0;
  bool registers_local_ = false;       // as RegisteredMemory::local
  std::map<uint64_t, Region> locals_;  // by cookie
  std::unique_ptr<Driver> driver_;
};

// The endpoints of one case and their clock.
class Bed {
 public:
  explicit Bed(const Rig& rig);
  // Another endpoint; the first one again if an endpoint can reach only itself.
  Node& node();
  // Polls all endpoints, moving the clock, until the condition holds. False if it never does.
  bool run(const std::function<bool()>& until);
  // Runs until nothing has happened for a while.
  void settle();
  // Sends, with polling while the driver has no room. Fails the test if it never has.
  void send(Node& from, PeerId to, std::string_view head, std::string_view body = {},
            uint64_t cookie = 0);

  void send_short(Node& from, PeerId to, std::string_view frame);

  // Memory that stays in place until all endpoints are closed, whatever a driver does with it.
  std::string& keep(std::string bytes);

  const Rig& rig;
  uint64_t now_ns = 1000000000;

 private:
  unsigned step();
  std::deque<std::string> kept_;  // outlives the endpoints
  std::vector<std::unique_ptr<Node>> nodes_;
};

// `size` bytes that depend on `seed`; the first bytes are the seed itself.
std::string pattern(uint64_t seed, size_t size);
// A body with this head fills a frame.
inline size_t body_max(const DriverCaps& caps, size_t head) { return caps.mtu - head; }

// The other process of a case: opens an endpoint, connects to `parent`, writes its own address to
// `pipe`, and answers each frame until "bye". The program's exit status.
int serve(const Rig& rig, std::span<const std::byte> parent, int pipe);
// The argument by which a program is executed once more for that; then come the name of the rig and
// the parent's address in hexadecimal digits. The own address goes to standard output.
inline constexpr char kServeOption[] = "--serve";

uint64_t real_ns();

// Calls of clock functions by a driver since the last question.
unsigned clock_reads();

struct Case {
  const char* name;
  const char* rule;  // what is checked
  uint32_t needs;    // capabilities without which the case says nothing
  bool needs_peer;   // not for drivers that reach only themselves
  void (*run)(Bed& bed);
};

extern const std::span<const Case> kFrameCases;
extern const std::span<const Case> kPeerCases;
extern const std::span<const Case> kOptionalCases;
extern const std::span<const Case> kRegisteredCases;
extern const std::span<const Case> kAtomicCases;
extern const std::span<const Case> kGroupCases;
std::vector<Case> all_cases();
// Runs one case with googletest assertions.
void run_case(const Case& c, const Rig& rig);
// Null if the case applies to the driver, else why not.
const char* why_not(const Case& c, const Rig& rig, uint32_t flags);

// The rigs that this binary runs by itself: every driver, and configurations of simulated cards.
std::vector<Rig> all_rigs(uint64_t seed);
// Does the rig's driver open here? If not, *why says why not.
bool can_open(const Rig& rig, std::string* why);
// The emulated cards among them.
std::vector<Rig> nic_rigs(uint64_t seed);
// A rig for any name that open_driver() knows.
Rig named_rig(const std::string& name, uint64_t seed);

}  // namespace torii::kit
