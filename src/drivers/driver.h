// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The interface by which a NIC carries Torii. The class Driver has 25 functions:
// six required functions, thirteen optional ones, each of which two drivers or more implement, and
// six that hand out one small interface each (interfaces.h), which few drivers offer.
//
// A driver moves frames between processes and, if it can, reads, writes and updates a peer's
// memory. It knows nothing of matching, messages or MPI, and keeps no retry policy.
//
// Rules; each is a case of the conformance kit (test/conformance):
//  1. One thread at a time calls a driver (the core's lock sees to it).
//  2. Every upcall happens inside poll() or Advice::look(). An upcall may call send, put, get,
//     connect; never those two.
//  3. A refused item leaves no trace. send() takes a prefix of the batch; the rest is
//     back-pressure and the core offers it again.
//  4. Frames between two processes that the driver takes are delivered once, unchanged and in
//     order, if it declares kReliable; with kMulticast that includes frames to groups.
//  5. A body of at most caps().inline_max bytes, and every head, is copied before send() returns.
//     A longer body, or one that is lent, belongs to the driver until done(cookie); then cookie
//     must not be 0.
//  6. done(cookie) comes exactly once for every accepted nonzero cookie, also when the peer dies.
//  7. A driver reads no clock: time comes in with poll().
//  8. A function whose capability is not declared answers `unsupported`.
//  9. Nothing from another process is trusted: lengths, offsets and keys are checked before use.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/atomics.h"
#include "core/base/counters.h"
#include "core/base/emulated.h"
#include "core/base/status.h"
#include "drivers/trust.h"

namespace torii {

// A process (or a multicast group) as one driver names it. Dense small numbers, chosen by the
// driver, valid from connect() (or the first packet of that process) until disconnect().
using PeerId = uint32_t;
inline constexpr PeerId kNoPeer = ~PeerId{0};

enum Cap : uint32_t {
  kReliable = 1u << 0,   // no loss, duplication or corruption; frames to one peer stay in order
  kPeerDown = 1u << 1,   // reports processes that end or die
  kNeedsReg = 1u << 2,   // registering memory costs much, and keys end with it: RegisteredMemory
  kPut = 1u << 3,        // remote write
  kGet = 1u << 4,        // remote read
  kMulticast = 1u << 5,  // join, leave and send to groups
  kWait = 1u << 6,       // arm: sleep until something arrives
  kGuard = 1u << 7,      // reg with kGuarded: keys that hold for as long as their owner says
  kAtomic = 1u << 8,     // atomic: operations on words of guarded regions
  kDelivers = 1u << 9,   // done() of a lent body: this frame and those before have reached the peer
};

inline constexpr uint32_t kMtuLeast = 512;   // of every driver
inline constexpr size_t kAddressMax = 255;   // bytes of an address; the link needs 32 of them
inline constexpr size_t kKeyMax = 128;       // bytes of a memory key
inline constexpr size_t kHeadMax = 192;      // bytes of a frame's head
inline constexpr unsigned kRailsMax = 8;     // ways to one peer
inline constexpr uint8_t kFirstRail = 0xff;  // Tx::rail: the lowest that answers
inline constexpr uint8_t kHeardRail = 0xfe;  // Tx::rail: the one that the peer used last

inline constexpr uint64_t kNoSize = ~uint64_t{0};  // a size that no message has

struct DriverCaps {
  uint32_t flags = 0;  // Cap bits
  uint32_t mtu = 0;    // largest frame (head and body), at least kMtuLeast
  // Largest frame with a body in one piece, which is lent, or copied where lend_min is 0; 0: mtu.
  // An unreliable driver may lose all that are longer than mtu, on some ways. See
  // Paths::long_max().
  uint32_t long_max = 0;
  uint32_t inline_max = 0;     // largest body copied before send() returns; at least 256
  uint32_t lend_min = 0;       // shortest body that it would rather read later, if lent; 0: none
  uint32_t pieces_max = 1;     // most address ranges of one body, put or get
  uint32_t batch_max = 1;      // frames of one send() that gain most; more gain nothing
  uint32_t address_bytes = 0;  // length of an address, at most kAddressMax
  uint32_t key_bytes = 0;      // length of a memory key, at most kKeyMax
  uint32_t peers_max = 0;      // most peers connected at once
  uint64_t remote_max = 0;     // largest single put or get
  uint32_t eager_advice = 0;   // message size up to which copying beats put or get; 0: one frame
};

struct Region;

// One frame to send. `head` is copied by the call; `body` is gathered from `pieces`.
struct Tx {
  PeerId peer = kNoPeer;
  uint32_t head_bytes = 0;  // at most kHeadMax; head and body together at most mtu, or long_max
  const void* head = nullptr;
  const iovec* pieces = nullptr;  // at most pieces_max ranges
  uint32_t piece_count = 0;
  uint32_t body_bytes = 0;    // sum of the ranges
  uint64_t cookie = 0;        // nonzero: report done(cookie)
  bool lent = false;          // even a short body stays unchanged until done(cookie)
  bool awaited = false;       // with kDelivers: nothing follows at once, done(cookie) is waited for
  uint8_t rail = kFirstRail;  // one of rails(); where that does not answer: kFirstRail
  // A frame of at most 512 bytes for a peer to which no way is known yet: one copy may go to each
  // of its addresses.
  bool anywhere = false;
  // Where RegisteredMemory::local says so: has kLocal and covers a body of more than inline_max
  // bytes, or one that is lent. It stays registered until done(cookie).
  const Region* local = nullptr;
};

enum Access : uint32_t {
  kRemoteRead = 1,
  kRemoteWrite = 2,
  kRemoteUpdate = 4,  // atomic operations
  kGuarded = 8,       // the key ends with dereg(), and one that was invented is recognized
  kLocal = 16,        // this process's own put and get, and bodies of its frames; by no peer
};

// Local memory that peers may reach; filled by reg(). The last fields of a key should be those that
// are mostly 0: words of zeros at its end do not travel.
struct Region {
  void* base = nullptr;
  uint64_t bytes = 0;
  uint32_t access = 0;                   // Access bits
  std::array<std::byte, kKeyMax> key{};  // first caps().key_bytes bytes; sent to peers
  uint64_t driver_data = 0;              // the driver's own
  uint64_t label = 0;                    // with kGuarded, set before reg(): for peers' reach()
};

// A remote write or read: `bytes` bytes between local pieces and `remote` + `remote_offset`.
struct Rma {
  PeerId peer = kNoPeer;
  uint32_t remote = 0;            // from import()
  uint64_t remote_offset = 0;     // from the start of the exported region
  const iovec* pieces = nullptr;  // local memory, at most pieces_max ranges
  uint32_t piece_count = 0;
  uint64_t bytes = 0;   // at most remote_max
  uint64_t cookie = 0;  // for done() if the call answers `pending`; 0: it answers `again` instead
  bool alone = false;   // the other process has moves of its own: do not ask for its help
  bool soon = false;    // do not wait for frames that have arrived since the one that asks for it
  // As Tx::local, for more than inline_max bytes; until the end of the call, or done(cookie).
  const Region* local = nullptr;
};

// An atomic operation on a word of a guarded region that gives kRemoteUpdate.
struct RemoteAtomic {
  PeerId peer = kNoPeer;
  uint32_t remote = 0;         // from import()
  uint64_t remote_offset = 0;  // from the start of the exported region
  AtomicOp op = AtomicOp::add;
  uint8_t width = 8;  // bytes, as atomic_width() accepts; the word is aligned to them
  uint64_t operand = 0;
  uint64_t compare = 0;     // of compare_swap
  uint64_t* old = nullptr;  // becomes the value before, if it happens
  uint64_t cookie = 0;      // not 0
};

inline constexpr uint32_t kNoSender = ~uint32_t{0};

// A frame that arrived, as in Sink::packet().
struct Packet {
  PeerId from = kNoPeer;  // of a lossy group: its number
  std::span<const std::byte> frame;
  // Set by the sink: it is new, and `from` has proved to be who sent it. Until then a driver for
  // networks on which others send (DriverEnv::trust) changes nothing for a frame.
  bool genuine = false;
  // In a lossy group: the member that has sent it, as it has proved; kNoSender: it is left to a
  // layer above to find out.
  uint32_t sender = kNoSender;
};

// The core, as a driver sees it.
class Sink {
 public:
  // A frame arrived. The bytes die when the call returns. `from` is a peer to which send() works
  // at once, or kNoPeer if the driver does not know the sender.
  virtual void packet(PeerId from, std::span<const std::byte> frame) = 0;
  // Frames that arrived together, in this order; the same as packet() for each.
  virtual void packets(std::span<Packet> all) {
    for (const Packet& one : all) packet(one.from, one.frame);
  }
  // The operation with this cookie is complete: its memory belongs to the core again.
  virtual void done(uint64_t cookie, Status status) = 0;
  // peer_closed: the process left in good order; peer_dead: it did not; unreachable: the driver has
  // never heard of it, and has taken no frame to it, so another driver may. At most once per peer.
  // Pending cookies of the peer are reported by done() as usual, before this call.
  virtual void peer_down(PeerId peer, Status status) = 0;

 protected:
  ~Sink() = default;
};

// The environment that a driver opens in. All references outlive the driver.
struct DriverEnv {
  Sink* sink = nullptr;
  Counters* counters = nullptr;
  uint32_t local_peers = 1;  // processes of this job on this node; for sizing
  bool take_turns = false;   // they have more processes than processors
  // The time, in the nanoseconds that poll() is told too: those may be some milliseconds old, if
  // rounds of progress take long. Null: poll() is told precisely.
  uint64_t (*clock)(void* context) = nullptr;
  void* clock_context = nullptr;
  // For drivers whose network others can send on (trust.h). Peers' drivers of this name talk to it.
  std::string name;
  const Keys* keys = nullptr;  // null: draw a pair
  Members* members = nullptr;  // null: nobody talks to this process whom it has not connected
  // Tags the driver's own messages. Null: everybody on the network is believed.
  const Trust* trust = nullptr;
  // Under torii-fabric: the emulated node that this process is on (core/base/emulated.h).
  uint32_t emulated_node = kNoEmulatedNode;
};

class Paths;  // interfaces.h
class Advice;
class RegisteredMemory;
class MappedMemory;
class ShortFrames;
class LossyGroups;

class Driver {
 public:
  virtual ~Driver() = default;  // closing tells connected peers, where that is possible

  // --- required ---------------------------------------------------------------------------
  // Constant after opening.
  virtual const DriverCaps& caps() const = 0;
  // Writes this process's address, caps().address_bytes bytes, for peers' connect().
  virtual void address(std::byte* out) const = 0;
  // Makes the process at `address` reachable; may be lazy. The same address gives the same
  // peer. `unreachable` (or another error) is an answer: *why then holds one sentence for the
  // user, beginning with the driver's name and naming the thing, the value and the remedy; with
  // `ok` it may hold one on what is not possible with this peer. `peer_dead`, `peer_closed`: the
  // process is gone, for other drivers, too. `unsupported`: such a process is never this driver's
  // business. `address` comes from outside: check it.
  virtual Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) = 0;
  // Forgets a peer. Frames already taken are still sent.
  virtual void disconnect(PeerId peer) = 0;
  // Sends a prefix of the batch; returns how many frames it took.
  virtual size_t send(std::span<const Tx> batch) = 0;
  // Makes upcalls for at most about `budget` events; returns how many. Idle cost: a few ns.
  // `now_ns` is monotonic and may be some milliseconds old (DriverEnv::clock).
  virtual unsigned poll(uint64_t now_ns, unsigned budget) = 0;

  // --- optional ---------------------------------------------------------------------------
  // Makes memory reachable by peers (kPut, kGet), or by this process's own card (kLocal); dereg()
  // after the last use by any of them. `no_memory`: there is no room for another registration now.
  // Then the core gives back others, has fewer at a time, and at last copies.
  virtual Status reg(void* base, uint64_t bytes, uint32_t access, Region* out);
  virtual void dereg(Region& region);
  // Turns a peer's key into a handle for put and get; drop() gives it back.
  virtual Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote);
  virtual void drop(uint32_t remote);
  // Answer `ok` (finished, no done()), `pending` (done() follows), `again`, or an error after
  // which nothing was or will be moved by this call. `denied` means: use frames for this peer.
  virtual Status put(const Rma& rma);
  virtual Status get(const Rma& rma);
  // Answers `ok` (it has happened, no done()), `pending` (done() follows), or an error: nothing has
  // happened then, nor will; the core asks the other process by frames. The same if done() says
  // `unsupported`.
  virtual Status atomic(const RemoteAtomic& atomic);
  // Inside packet(): moves bytes of the frame to their place, where all are on return. For cards
  // whose frames lie in memory that the processor reads slowly. Asked for at least
  // Advice::take_min bytes, also of other memory: a decorator may have kept the frame.
  virtual void take(void* to, const std::byte* from, size_t bytes);
  // Memory for the user that is cheaper to register, put to and get from: aligned to `alignment`, a
  // power of two, and page-aligned if it is long. `no_memory`, `unsupported`: the core takes other
  // memory. It stays usable until dealloc(), and if the driver closes before, from then on for
  // ever. A key of memory that was given back is refused by import, or by put and get.
  virtual Status alloc(uint64_t bytes, uint64_t alignment, void** base);
  virtual void dealloc(void* base);
  // A group is named by 1 to 16 bytes and is a PeerId: send() reaches all members but this one,
  // where the frame comes from this process as any other does. With `ok` all frames that are sent
  // to the group from now on arrive here. After leave() none need to, but those taken are sent.
  virtual Status join(std::span<const std::byte> group, PeerId* peer);
  virtual void leave(PeerId peer);
  // Prepares to sleep: `ok` and *fd, which turns readable when there is work for poll(), or
  // `again` if work is waiting already. The descriptor stays the driver's. Each sleep needs an
  // arm() of its own.
  virtual Status arm(int* fd);

  // --- interfaces that few drivers offer (interfaces.h) -------------------------------------
  // These only say which: null: not this one. They end with the driver.
  virtual Paths* paths() { return nullptr; }
  virtual Advice* advice() { return nullptr; }
  virtual RegisteredMemory* registered_memory() { return nullptr; }  // only with kNeedsReg
  virtual MappedMemory* mapped_memory() { return nullptr; }          // only with kGuard
  virtual ShortFrames* short_frames() { return nullptr; }
  virtual LossyGroups* lossy_groups() { return nullptr; }
};

// One row of the table of drivers (list.cc).
struct DriverInfo {
  const char* name;
  const char* doc;  // one sentence for torii-info
  // Opens the driver, or returns null with the reason and the remedy in *why.
  std::unique_ptr<Driver> (*open)(const DriverEnv& env, std::string* why);
  bool network;  // for other nodes: a job whose processes share memory does without it
  // Hints for choosing among drivers; they promise nothing.
  uint32_t latency_ns;
  uint32_t mbytes_per_s;
  // Is there something here that it can drive, a card or what the user has named for it? Unless it
  // is, only TORII_DRIVERS chooses the driver. Null: always.
  bool (*has_hardware)() = nullptr;
};

// All drivers built in. Those of emulated cards only under torii-fabric: without it none of them
// opens.
std::span<const DriverInfo> driver_list();
// The names in TORII_DRIVERS, in its order; unless it is set, without drivers that have no
// hardware.
std::vector<std::string> chosen_drivers();
// The row of a name; of NAME for "fault:NAME". Null with the names that there are in *why.
const DriverInfo* find_driver(const std::string& name, std::string* why = nullptr);
// Is there such a driver, and does what the user says of it make sense? False with the reason and
// the remedy in *why.
bool check_driver(const std::string& name, std::string* why);
// Is there such a driver, and is it for other nodes?
bool is_network(const std::string& name);
// Opens by name; "fault:NAME" wraps NAME. Null with the reason in *why.
std::unique_ptr<Driver> open_driver(const std::string& name, const DriverEnv& env,
                                    std::string* why);

}  // namespace torii
