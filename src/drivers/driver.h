// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// What a NIC must do to carry Torii: six required functions, twenty-three optional ones. A driver
// moves frames (of caps().mtu bytes; see long_max) between processes and, if it can, reads, writes
// and updates a peer's memory. It knows nothing of matching, messages or MPI, and keeps no retry
// policy.
//
// Rules; each is a case of the conformance kit (test/conformance):
//  1. One thread at a time calls a driver (the core's lock sees to it).
//  2. Every upcall happens inside poll() or look(). An upcall may call send, put, get, connect;
//     never those two.
//  3. A refused item leaves no trace. send() takes a prefix of the batch; the rest is
//     back-pressure and the core offers it again.
//  4. Frames between two processes that the driver takes are delivered once, unchanged and in
//     order, if it declares kReliable and kOrdered; with kMulticast that includes frames to groups.
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
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/atomics.h"
#include "core/base/counters.h"
#include "core/base/status.h"

namespace torii {

// A process (or a multicast group) as one driver names it. Dense small numbers, chosen by the
// driver, valid from connect() (or the first packet of that process) until disconnect().
using PeerId = uint32_t;
inline constexpr PeerId kNoPeer = ~PeerId{0};

// What can be known of a silent peer's process without its help; see Driver::life().
enum class Life : uint8_t { unknown, there, gone };
inline constexpr uint64_t kLifeAgeNs = 1250000000;

enum Cap : uint32_t {
  kReliable = 1u << 0,   // no loss, duplication or corruption
  kOrdered = 1u << 1,    // frames to one peer arrive in the order of sending
  kPeerDown = 1u << 2,   // reports processes that end or die
  kNeedsReg = 1u << 3,   // registering memory costs much: keep registrations, copy small data
  kPut = 1u << 4,        // remote write
  kGet = 1u << 5,        // remote read
  kMulticast = 1u << 6,  // join, leave and send to groups
  kWait = 1u << 7,       // arm: sleep until something arrives
  kAlloc = 1u << 8,      // alloc: memory that peers reach more cheaply than other memory
  kGuard = 1u << 9,      // reg with kGuarded: keys that hold for as long as their owner says
  kAtomic = 1u << 10,    // atomic: operations on words of guarded regions
  kDelivers = 1u << 11,  // done() of a lent body: this frame and those before have reached the peer
};

inline constexpr size_t kAddressMax = 96;    // bytes of an address; a driver has 64, the link adds
inline constexpr size_t kKeyMax = 128;       // bytes of a memory key
inline constexpr size_t kHeadMax = 192;      // bytes of a frame's head
inline constexpr unsigned kRailsMax = 8;     // ways to one peer
inline constexpr uint8_t kFirstRail = 0xff;  // Tx::rail: the lowest that answers
inline constexpr uint8_t kHeardRail = 0xfe;  // Tx::rail: the one that the peer used last

inline constexpr uint64_t kNoSize = ~uint64_t{0};  // a size that no message has

struct DriverCaps {
  uint32_t flags = 0;  // Cap bits
  uint32_t mtu = 0;    // largest frame (head and body), at least 512
  // Largest frame with a body in one piece, which is lent, or copied where lend_min is 0; 0: mtu.
  // An unreliable driver may lose all that are longer than mtu, on some ways. See also long_max().
  uint32_t long_max = 0;
  uint32_t inline_max = 0;     // largest body copied before send() returns; at least 256
  uint32_t lend_min = 0;       // shortest body that it would rather read later, if lent; 0: none
  uint32_t pieces_max = 1;     // most address ranges of one body, put or get
  uint32_t batch_max = 1;      // frames of one send() that gain most; more gain nothing
  uint32_t address_bytes = 0;  // length of an address, at most kAddressMax
  uint32_t key_bytes = 0;      // length of a memory key, at most kKeyMax
  uint32_t peers_max = 0;      // most peers connected at once
  uint64_t remote_max = 0;     // largest single put or get
  uint64_t remote_min = 0;     // smallest put or get worth while instead of frames; see sooner_sent
  uint32_t eager_advice = 0;   // message size up to which copying beats put or get; 0: one frame
  // Of the messages up to that size, those from these on are better announced and read: where
  // nothing else is under way, so that no copies overlap; and while such messages meet each other
  // (0: those of more than half that size).
  uint64_t read_alone_min = kNoSize;
  uint64_t read_crossing_min = 0;
  uint32_t latency_ns = 0;  // hints for choosing among drivers; they promise nothing
  uint32_t mbytes_per_s = 0;
};

// One frame to send. `head` is copied by the call; `body` is gathered from `pieces`.
struct Tx {
  PeerId peer = kNoPeer;
  uint32_t head_bytes = 0;  // at most kHeadMax; head and body together at most mtu, or long_max
  const void* head = nullptr;
  const iovec* pieces = nullptr;  // at most pieces_max ranges
  uint32_t piece_count = 0;
  uint32_t body_bytes = 0;  // sum of the ranges
  uint64_t cookie = 0;      // nonzero: report done(cookie)
  bool lent = false;        // even a short body stays unchanged until done(cookie)
  bool awaited = false;     // with kDelivers: nothing follows at once, done(cookie) is waited for
  // One of many of a payload: the last of the room in front of the peer is for other frames.
  bool leaves_room = false;
  uint8_t rail = kFirstRail;  // one of rails(); where that does not answer: kFirstRail
};

enum Access : uint32_t {
  kRemoteRead = 1,
  kRemoteWrite = 2,
  kRemoteUpdate = 4,  // atomic operations
  kGuarded = 8,       // the key ends with dereg(), and one that was invented is recognized
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

// What the owner of a kGuarded region says of it, now, and not what the key says.
struct Reach {
  uint64_t bytes = 0;
  uint32_t access = 0;  // Access bits
  uint64_t label = 0;
  // Where it is mapped in this process, for load, store and the processor's atomics, while *guard
  // has the value `valid`; null: nowhere.
  std::byte* at = nullptr;
  const std::atomic<uint64_t>* guard = nullptr;
  uint64_t valid = 0;
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

// An address of a peer's, as a driver that looks for the way knows it; for messages to the user.
struct PeerAddress {
  std::string address;    // "10.0.0.2:4000"
  std::string interface;  // of this process, by which the system sends there; empty: by none
  uint32_t mtu = 0;       // longest packet on the way there, as the system knows it; 0: unknown
  int rail = -1;          // bit of rails() by which frames go to this address; -1: none do
  bool answers = false;   // frames can go there, or it has answered since it was last tried
  bool asked = false;     // the peer has tried this process from there: its packets arrive
};

// The core, as a driver sees it.
// A frame that arrived, as in Sink::packet().
struct Packet {
  PeerId from = kNoPeer;
  std::span<const std::byte> frame;
};

class Sink {
 public:
  // A frame arrived. The bytes die when the call returns. `from` is a peer to which send() works
  // at once, or kNoPeer if the driver does not know the sender.
  virtual void packet(PeerId from, std::span<const std::byte> frame) = 0;
  // Frames that arrived together, in this order; the same as packet() for each.
  virtual void packets(std::span<const Packet> all) {
    for (const Packet& one : all) packet(one.from, one.frame);
  }
  // The operation with this cookie is complete: its memory belongs to the core again.
  virtual void done(uint64_t cookie, Status status) = 0;
  // peer_closed: the process left in good order; peer_dead: it did not. At most once per peer.
  // Pending cookies of the peer are reported by done() as usual, before this call.
  virtual void peer_down(PeerId peer, Status status) = 0;

 protected:
  ~Sink() = default;
};

// What a driver is given when it opens. All references outlive the driver.
struct DriverEnv {
  Sink* sink = nullptr;
  Counters* counters = nullptr;
  uint32_t local_peers = 1;  // processes of this job on this node; for sizing
  bool take_turns = false;   // they have more processes than processors
  // The time, in the nanoseconds that poll() is told too: those may be some milliseconds old, if
  // rounds of progress take long. Null: poll() is told precisely.
  uint64_t (*clock)(void* context) = nullptr;
  void* clock_context = nullptr;
};

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
  // `now_ns` is monotonic and may be some microseconds old.
  virtual unsigned poll(uint64_t now_ns, unsigned budget) = 0;

  // --- optional ---------------------------------------------------------------------------
  // For messages to the user: how the peer is reached and when it was last heard of, as far as the
  // driver can tell ("eth0 to 10.0.0.2:4000, last packet 30.1 s ago"); else empty.
  virtual std::string path_text(PeerId peer) const;
  // The ways to a peer that answer now, bit i for rail i; 0: none is known yet. A rail keeps its
  // number while the peer is connected. They may differ in speed, and end and come back at any
  // time.
  virtual uint32_t rails(PeerId peer) const;
  // Is the process of a silent peer there, as its kernel or a neighbour says, or was it at most
  // kLifeAgeNs ago? The first question may begin to find out. `gone` is a hint: others on the
  // network may have made it up. Few peers are watched at a time, those that are asked about. Not
  // for hot paths.
  virtual Life life(PeerId peer);
  // The largest frame as of caps().long_max that gains something on the way to this peer now:
  // longer ones than mtu, or 0. It may fall at any time; frames of what it once was are taken
  // nevertheless.
  virtual uint32_t long_max(PeerId peer) const;
  // No frame that was taken is still to reach a peer, as far as the driver is told of it.
  virtual bool delivered() const;
  // Its addresses, whether they answer or not; empty if the driver has nothing to look for. Asks
  // the system: not for hot paths.
  virtual std::vector<PeerAddress> peer_addresses(PeerId peer) const;
  // Sends the frame that most small messages are: a head of two words (in memory order), a body of
  // at most inline_max bytes in one range, no cookie. True: taken. Worth writing where building and
  // reading a Tx is a good part of the work; otherwise this calls send().
  virtual bool send_short(PeerId peer, uint64_t word0, uint64_t word1, const void* body,
                          uint32_t body_bytes);
  // Makes memory reachable by peers (kPut, kGet). dereg() after the last use by any peer.
  virtual Status reg(void* base, uint64_t bytes, uint32_t access, Region* out);
  virtual void dereg(Region& region);
  // Turns a peer's key into a handle for put and get; drop() gives it back.
  virtual Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote);
  virtual void drop(uint32_t remote);
  // The region of a kGuarded key (kGuard). It stays mapped, and *guard readable, until drop() or
  // peer_down. `invalid`: the key is another one, or has ended.
  virtual Status reach(uint32_t remote, Reach* out);
  // Memory for the user that is cheaper to register, put to and get from (kAlloc): aligned to
  // `alignment`, a power of two, and page-aligned if it is long. `no_memory`: the core takes other
  // memory. It stays usable until dealloc(), and if the driver closes before, from then on for
  // ever. A key of memory that was given back is refused by import, or by put and get.
  virtual Status alloc(uint64_t bytes, uint64_t alignment, void** base);
  virtual void dealloc(void* base);
  // Is this memory of alloc(), and a get by that peer cheaper than frames even if it is short?
  // Asked for every message longer than a frame: answers in a few ns.
  virtual bool near(PeerId peer, const void* at) const;
  // Would that many bytes of that memory be here sooner if its owner sent them in frames, than by a
  // get? Then the core asks for frames, and gets what has not come when none have for 0.1 ms: the
  // owner may be computing. Asked for every announced message: answers in a few ns.
  virtual bool sooner_sent(uint32_t remote, uint64_t bytes) const;
  // Answer `ok` (finished, no done()), `pending` (done() follows), `again`, or an error after
  // which nothing was or will be moved by this call. `denied` means: use frames for this peer.
  virtual Status put(const Rma& rma);
  virtual Status get(const Rma& rma);
  // Nothing will happen in this process before some of those under way there are over: looks for
  // that for about a microsecond, and reports it by done(), if it is seen sooner than by poll().
  virtual void look(PeerId peer);
  // Answers `ok` (it has happened, no done()), `pending` (done() follows), or an error: nothing has
  // happened then, nor will; the core asks the other process by frames. The same if done() says
  // `unsupported`.
  virtual Status atomic(const RemoteAtomic& atomic);
  // A group is named by 1 to 16 bytes and is a PeerId: send() reaches all members but this one,
  // where the frame comes from this process as any other does. With `ok` all frames that are sent
  // to the group from now on arrive here. After leave() none need to, but those taken are sent.
  virtual Status join(std::span<const std::byte> group, PeerId* peer);
  virtual void leave(PeerId peer);
  // Prepares to sleep: `ok` and *fd, which turns readable when there is work for poll(), or
  // `again` if work is waiting already. The descriptor stays the driver's. Each sleep needs an
  // arm() of its own.
  virtual Status arm(int* fd);
};

// One row of the table of drivers (list.cc).
struct DriverInfo {
  const char* name;
  const char* doc;  // one sentence for torii-info
  // Opens the driver, or returns null with the reason and the remedy in *why.
  std::unique_ptr<Driver> (*open)(const DriverEnv& env, std::string* why);
  bool network = false;  // for other nodes: a job on one node does without, unless it is asked for
};

// All drivers built in.
std::span<const DriverInfo> driver_list();
// The names in TORII_DRIVERS, in its order.
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
