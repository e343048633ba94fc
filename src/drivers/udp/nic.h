// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One endpoint: a socket, the peers it knows, and how they are reached. send.cc and receive.cc
// hold the traffic, paths.cc finds out which address of a peer answers.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/numbers.h"
#include "core/base/random.h"
#include "drivers/interfaces.h"
#include "drivers/udp/lifelines.h"
#include "drivers/udp/net.h"
#include "drivers/udp/path_size.h"
#include "drivers/udp/pieces.h"
#include "drivers/udp/wire.h"

namespace torii::udp {

inline constexpr uint32_t kBatchMax = 64;      // frames of one system call, and of one buffer
inline constexpr uint32_t kBufferMax = 65000;  // bytes that the kernel cuts into datagrams

// A socket that datagrams are taken from.
struct Source {
  Socket socket;
  bool connected = false;
  sockaddr_in6 peer{};     // to that one
  PeerId group = kNoPeer;  // or it is a group's
};

// Datagrams taken from one socket by one system call.
class Inbox {
 public:
  static constexpr size_t kDatagrams = 8;
  static constexpr size_t kBytes = 65536;  // of one datagram, or of several that the kernel joined

  Inbox();
  // Asks the socket, once, for at most so many. True: there is something.
  bool fill(const Source& source, size_t most);
  size_t size() const { return count_; }
  bool empty() const { return index_ == count_; }
  // The next datagram; valid until the next fill(). False: it was cut short, or nothing is left.
  bool next(std::span<const std::byte>* datagram, const sockaddr_in6** from);
  // Makes the datagram that next() gave last so long, by those that the kernel joined to it. False:
  // they are not there, and all of the buffer is passed over.
  bool extend(std::span<const std::byte>* datagram, size_t bytes);
  // The one whose socket was asked; kNoPeer: it was no group's.
  PeerId group() const { return group_; }

 private:
  bool ask(int fd, size_t most);
  void begin(msghdr& m, size_t total);

  std::unique_ptr<std::byte[]> memory_;  // pages that are never used are never there
  std::array<mmsghdr, kDatagrams> messages_{};
  std::array<iovec, kDatagrams> pieces_{};
  std::array<NativeAddress, kDatagrams> from_{};
  struct alignas(cmsghdr) Control {
    std::byte bytes[CMSG_SPACE(sizeof(int))];
  };
  std::array<Control, kDatagrams> control_{};
  size_t count_ = 0;
  size_t index_ = 0;
  size_t offset_ = 0;  // in a buffer of joined datagrams
  size_t one_ = 0;     // bytes of each of them, but the last
  bool connected_ = false;
  PeerId group_ = kNoPeer;
  sockaddr_in6 sender_{};
};

class UdpDriver final : public Driver, private Paths, private LossyGroups {
 public:
  UdpDriver(const DriverEnv& env, std::vector<Interface> interfaces);
  ~UdpDriver() override;
  bool open(std::string* why);

  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override { write_address(own_, out); }
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override;
  void disconnect(PeerId peer) override;
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  void leave(PeerId peer) override;
  Status arm(int* fd) override;
  Paths* paths() override { return this; }
  LossyGroups* lossy_groups() override { return this; }
  uint64_t network() const override { return network_stack(); }

 private:
  std::string text(PeerId peer) const override;
  std::string trouble(PeerId peer) const override;
  uint32_t rails(PeerId peer) const override;
  Life life(PeerId peer) override;
  uint32_t long_max(PeerId) const override { return caps_.long_max; }
  std::vector<PeerAddress> addresses(PeerId peer) const override;
  Status join_lossy(const LossyMember& membership, PeerId* group) override;

  static constexpr size_t kNoInterface = ~size_t{0};
  static constexpr uint8_t kNoRail = 0xff;
  // An address of a peer's.
  struct Candidate {
    sockaddr_in6 where{};
    size_t interface = kNoInterface;  // by which it was reached; in interfaces_
    bool answered = false;            // in this round
    bool asked = false;               // a ping of the peer's came from there
  };
  // A way to a peer: an address that answers; of those by one interface the first that did.
  struct Rail {
    sockaddr_in6 path{};
    size_t interface = kNoInterface;
    bool answers = true;
    bool segments = true;   // the kernel may cut a long buffer into datagrams
    uint64_t heard_ns = 0;  // last datagram from there
    Socket direct;          // connected to `path`; fd -1: there is none
    uint32_t sends = 0;     // without one
    uint64_t used_ns = 0;   // last time something was sent
    PathSize size;          // of datagrams
  };
  struct Peer {
    bool used = false;
    bool group = false;
    bool listens = true;       // unless its address says that it does not
    bool probing = false;      // rounds of pings are under way; listed in probing_
    uint8_t rounds = 0;        // begun since then
    uint8_t first = kNoRail;   // the lowest rail that answers; kNoRail: there is no path yet
    uint8_t heard = kNoRail;   // by which the last datagram came
    uint64_t number = 0;       // of the process, or of the group
    uint64_t doubted_ns = 0;   // when the first of them began
    uint64_t wanted_ns = 0;    // last time something was to be sent and there was no path
    uint64_t pings = 0;        // the number of the last one
    uint64_t round_at = 0;     // of the first one of the round
    Numbers pongs;             // that have come
    uint64_t answered_ns = 0;  // its first answer; 0: none yet
    uint64_t pinged_ns = 0;    // last pings
    uint64_t gap_ns = 0;       // from then to the next
    uint64_t rest_ns = 0;      // from then to the next round, if something is sent
    std::vector<Rail> rails;
    std::vector<Candidate> candidates;
    Socket group_socket;  // to send to the group by, and mostly to hear it
    bool hears = false;

    bool has_path() const { return first != kNoRail; }
  };
  class Outbox;

  bool open_sockets(std::string* why);
  void keep_to_interfaces(const Socket& socket) const;
  Peer& peer_at(PeerId id);
  PeerId new_peer(uint64_t number);
  PeerId known(uint64_t number) const;
  void forget(PeerId id);

  // groups.cc
  void found_neighbour();
  void prefer_interface(unsigned index);
  bool take_group(std::span<const std::byte> frame, const Header& header);

  // paths.cc
  void add_candidate(Peer& peer, const sockaddr_in6& where);
  void look_for(PeerId id);
  void begin_round(PeerId id);
  static bool complete(const Peer& peer);
  void doubt(PeerId id, Peer& peer, const Rail& rail);
  void introduce(const Tx& tx);
  void ping(PeerId id);
  void send_pings(PeerId id, size_t candidate, uint32_t most);
  void ask_for_size(PeerId id, Rail& rail);
  void ping_again();
  bool is_genuine(PeerId id, const Header& header, std::span<const std::byte> datagram) const;
  void take_ping(const Header& header, std::span<const std::byte> datagram,
                 const sockaddr_in6& from);
  void take_pong(const Header& header, std::span<const std::byte> datagram);
  void end_round(PeerId id);
  void answers(Peer& peer, const sockaddr_in6& path, size_t interface);
  void silent(Peer& peer, Rail& rail);
  void heard_from(PeerId id, uint8_t rail);
  static uint8_t rail_from(const Peer& peer, const sockaddr_in6& from);
  static void set_first(Peer& peer);
  static uint8_t choose(const Peer& peer, uint8_t wanted) {
    if (wanted == kHeardRail) wanted = peer.heard;
    return wanted < peer.rails.size() && peer.rails[wanted].answers ? wanted : peer.first;
  }
  size_t interface_to(const sockaddr_in6& path, uint32_t* path_mtu) const;
  bool may_use(const sockaddr_in6& path) const;
  Rail rail_at(const sockaddr_in6& path, size_t interface) const {
    return {path, interface, true, segments_, now_ns_, {}, 0, 0, PathSize(datagram_max_)};
  }
  std::string name_of(const Rail& rail) const;
  bool write_tagged(PeerId id, const Header& header, std::byte* out) const;
  void send_small(const sockaddr_in6& to, std::span<const std::byte> datagram);

  // send.cc
  void lost(const Outbox& out, size_t message, int error);

  // sockets.cc
  void consider_direct(PeerId id, uint8_t number);
  void retire_direct(Rail& rail);
  void list_sources();
  bool fill(size_t most);
  void choose_source();
  bool list_sleepers();
  void woken();
  void end_socket(Socket* socket);

  // receive.cc
  unsigned receive(unsigned budget);
  bool take_datagram(std::span<const std::byte> datagram, const sockaddr_in6& from);
  bool take_longer(std::span<const std::byte> datagram, const Header& header,
                   const sockaddr_in6& from);
  bool take_piece(std::span<const std::byte> datagram, const Header& header,
                  const sockaddr_in6& from);
  void hand_up();
  PeerId believe(uint64_t number, const sockaddr_in6& from);
  void add_packet(const Header& header, std::span<const std::byte> frame, const sockaddr_in6& from);

  Sink& sink_;
  Counters& counters_;
  const Trust* const trust_;  // as of DriverEnv
  const bool take_turns_;
  const std::vector<Interface> interfaces_;
  DriverCaps caps_;
  Socket socket_;
  Address own_;
  uint32_t datagram_max_ = 0;
  bool segments_ = true;
  uint64_t now_ns_ = 0;
  std::vector<Peer> peers_;  // by PeerId
  std::vector<PeerId> free_;
  std::unordered_map<uint64_t, PeerId> by_number_;  // processes, not groups
  PeerId last_sender_ = kNoPeer;                    // probably the next one, too
  std::vector<PeerId> probing_;
  std::vector<PeerId> groups_;
  std::vector<uint64_t> done_;                      // cookies for the next poll
  std::vector<std::pair<PeerId, uint8_t>> direct_;  // rails that have a connected socket
  std::vector<Source> retired_;  // connected sockets to be closed when they are empty
  std::vector<Source> sources_;  // the others
  std::vector<pollfd> ready_;    // for each of them
  size_t source_ = 0;            // the one that fill() asks
  unsigned asks_ = 0;            // since all of them were looked at
  Inbox inbox_;
  Pieces pieces_;
  uint32_t pieced_ = 0;                // frames that were sent in pieces
  std::array<Packet, 16> packets_{};   // to be handed up together
  std::array<uint8_t, 16> came_by_{};  // the rail of each, if it is genuine
  size_t packet_count_ = 0;
  bool crowded_ = false;  // several datagrams wait at a time
  unsigned single_fills_ = 0;
  unsigned empty_polls_ = 0;
  unsigned polls_to_skip_ = 0;  // a system call that finds nothing is not made at every poll
  uint64_t polled_ns_ = 0;      // clock at the last one
  int sleep_fd_ = -1;           // epoll of the sockets, once several were slept on
  bool slept_ = false;          // on that, since the last look
  std::vector<int> armed_;      // which of them it still tells of
  std::vector<unsigned> paths_by_interface_;  // how many lead over each; for groups
  unsigned group_interface_ = 0;              // by which frames to groups leave
  bool has_neighbour_ = false;                // a process of the same address; for groups
  std::unique_ptr<Outbox> outbox_;            // empty outside of send()
  Lifelines lifelines_;
};

}  // namespace torii::udp
