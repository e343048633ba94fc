// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <errno.h>
#include <netinet/udp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "drivers/udp/nic.h"

namespace torii::udp {
namespace {

constexpr unsigned kSkippedPolls = 7;
constexpr unsigned kSinglesInARow = 16;
constexpr int kErrorsMax = 16;        // of one socket, in a row
constexpr unsigned kEagerPolls = 64;  // after a datagram: more may be coming

std::span<const std::byte> frame_in(std::span<const std::byte> datagram, const Header& header) {
  return datagram.subspan(kHeaderBytes, datagram.size() - kHeaderBytes - header.padding);
}

}  // namespace

Inbox::Inbox() : memory_(new std::byte[kDatagrams * kBytes]) {
  for (size_t i = 0; i < kDatagrams; i++) {
    pieces_[i] = {memory_.get() + i * kBytes, kBytes};
    msghdr& m = messages_[i].msg_hdr;
    m.msg_iov = &pieces_[i];
    m.msg_iovlen = 1;
    m.msg_control = &control_[i];
  }
}

bool Inbox::fill(const Source& source, size_t most) {
  const int fd = source.socket.fd;
  connected_ = source.connected;
  group_ = source.group;
  if (connected_) sender_ = source.peer;
  for (size_t i = 0; i < most; i++) {
    messages_[i].msg_hdr.msg_name = connected_ ? nullptr : &from_[i].ipv6;
    messages_[i].msg_hdr.msg_namelen = connected_ ? 0 : sizeof(from_[i].ipv6);
    messages_[i].msg_hdr.msg_controllen = sizeof(control_[i]);
  }
  index_ = offset_ = count_ = 0;
  // The system tells first, once each, that somebody has refused what was sent: there may be
  // something behind that.
  for (int i = 0; i < kErrorsMax && !ask(fd, most); i++)
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
  return count_ > 0;
}

bool Inbox::ask(int fd, size_t most) {
  if (most == 1) {
    // The library's function is a point of cancellation: two more locked instructions for each
    // question that finds nothing, in a process with threads.
    const auto bytes = syscall(SYS_recvmsg, fd, &messages_[0].msg_hdr, MSG_DONTWAIT);
    if (bytes >= 0) messages_[0].msg_len = static_cast<unsigned>(bytes);
    count_ = bytes >= 0;
  } else {
    const int n =
        recvmmsg(fd, messages_.data(), static_cast<unsigned>(most), MSG_DONTWAIT, nullptr);
    count_ = n > 0 ? static_cast<size_t>(n) : 0;
  }
  return count_ > 0;
}

// How long are the datagrams of this buffer, and whose are they?
void Inbox::begin(msghdr& m, size_t total) {
  one_ = total;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
    int size = 0;
    if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO) continue;
    std::memcpy(&size, CMSG_DATA(c), sizeof(size));
    if (size > 0) one_ = static_cast<size_t>(size);
  }
  if (!connected_) sender_ = from_native(from_[index_]);
}

bool Inbox::next(std::span<const std::byte>* datagram, const sockaddr_in6** from) {
  if (empty()) return false;
  msghdr& m = messages_[index_].msg_hdr;
  const size_t total = messages_[index_].msg_len;
  if (offset_ == 0) begin(m, total);
  const bool cut = m.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
  const size_t take = std::min(one_, total - offset_);
  *datagram = {static_cast<const std::byte*>(pieces_[index_].iov_base) + offset_, take};
  *from = &sender_;
  offset_ += take;
  if (cut || offset_ == total) {
    index_++;
    offset_ = 0;
  }
  return !cut;
}

// The datagram's own bytes are the last ones before offset_, or before the end of the buffer.
bool Inbox::extend(std::span<const std::byte>* datagram, size_t bytes) {
  const size_t had = datagram->size();
  if (bytes < had) return false;
  if (bytes == had) return true;
  // The last one of a buffer has none behind it.
  if (empty() || offset_ == 0) return false;
  const size_t begin = offset_ - had, total = messages_[index_].msg_len;
  const bool there = had == one_ && bytes <= total - begin;
  // Bytes that are joined to it begin behind a whole datagram.
  const bool ends = begin + bytes == total;
  if (there) *datagram = {datagram->data(), bytes};
  offset_ = begin + bytes;
  if (there && !ends && bytes % one_ == 0) return true;
  index_++;
  offset_ = 0;
  return there && ends;
}

unsigned UdpDriver::poll(uint64_t now_ns, unsigned budget) {
  now_ns_ = now_ns;
  unsigned count = 0;
  if (!done_.empty()) {
    // send() may be called by the core meanwhile.
    std::vector<uint64_t> cookies = std::exchange(done_, {});
    for (; count < cookies.size() && count < budget; count++)
      sink_.done(cookies[count], Status::ok);
    done_.insert(done_.begin(), cookies.begin() + count, cookies.end());
  }
  if (inbox_.empty() && polls_to_skip_ && now_ns == polled_ns_) {
    polls_to_skip_--;
    return count;
  }
  polled_ns_ = now_ns;
  count += receive(budget - count);
  if (!probing_.empty()) ping_again();
  lifelines_.tend(now_ns);
  return count;
}

// Mostly there is one datagram, or one buffer of joined ones, and asking for another costs half a
// microsecond for nothing. Where several wait they are taken together; now and then one looks.
unsigned UdpDriver::receive(unsigned budget) {
  unsigned count = 0;
  polls_to_skip_ = 0;
  bool more = true;
  while (count < budget) {
    if (inbox_.empty()) {
      hand_up();  // they lie in the inbox
      if (!more) break;
      if (!fill(crowded_ ? Inbox::kDatagrams : 1)) {
        crowded_ = false;
        if (count == 0 && ++empty_polls_ > kEagerPolls) polls_to_skip_ = kSkippedPolls;
        break;
      }
      if (crowded_) {
        more = inbox_.size() == Inbox::kDatagrams;
        crowded_ = inbox_.size() > 1;
      } else {
        more = crowded_ = ++single_fills_ % kSinglesInARow == 0;
      }
    }
    std::span<const std::byte> datagram;
    const sockaddr_in6* from = nullptr;
    if (!inbox_.next(&datagram, &from)) {
      counters_.udp_foreign++;
      continue;
    }
    empty_polls_ = 0;
    count += take_datagram(datagram, *from);
    if (packet_count_ == packets_.size()) hand_up();
  }
  hand_up();
  return count;
}

// A rail has been heard only if what came by it was the peer's.
void UdpDriver::hand_up() {
  const std::span<Packet> all(packets_.data(), std::exchange(packet_count_, 0));
  sink_.packets(all);
  for (size_t i = 0; i < all.size(); i++)
    if (all[i].genuine) heard_from(all[i].from, came_by_[i]);
}

// True: a frame is to be handed up.
bool UdpDriver::take_datagram(std::span<const std::byte> datagram, const sockaddr_in6& from) {
  Header header;
  if (!parse_header(datagram, &header)) {
    counters_.udp_foreign++;
    return false;
  }
  // Each at its own sockets.
  const bool to_group = inbox_.group() != kNoPeer;
  if (to_group && header.kind == Kind::group) return take_group(frame_in(datagram, header), header);
  if (to_group || header.kind == Kind::group || header.to != tag_of(own_.number)) {
    counters_.udp_foreign++;
    return false;
  }
  if (header.kind == Kind::piece) return take_piece(datagram, header, from);
  if (header.kind == Kind::longer) return take_longer(datagram, header, from);
  if (header.kind == Kind::data) {
    add_packet(header, frame_in(datagram, header), from);
    return true;
  }
  hand_up();  // what came before may tell who asks
  if (header.kind == Kind::ping) take_ping(header, datagram, from);
  if (header.kind == Kind::pong) take_pong(header, datagram);
  return false;
}

bool UdpDriver::take_longer(std::span<const std::byte> datagram, const Header& header,
                            const sockaddr_in6& from) {
  if (header.size > kBufferMax || !inbox_.extend(&datagram, kLongerBytes + header.size)) {
    counters_.udp_cut++;
    return false;
  }
  add_packet(header, datagram.subspan(kLongerBytes), from);
  return true;
}

bool UdpDriver::take_piece(std::span<const std::byte> datagram, const Header& header,
                           const sockaddr_in6& from) {
  if (known(header.from) == kNoPeer) {
    counters_.udp_foreign++;
    return false;
  }
  const std::span<const std::byte> frame = pieces_.add(header, datagram.subspan(kPieceBytes));
  if (frame.empty()) return false;
  add_packet(header, frame, from);
  hand_up();  // its memory is used again
  return true;
}

// Where everybody is believed: who was not connected is reached where the datagram came from.
PeerId UdpDriver::believe(uint64_t number, const sockaddr_in6& from) {
  const PeerId id = new_peer(number);
  if (id == kNoPeer) return id;
  by_number_[number] = id;
  add_candidate(peers_[id], from);
  return id;
}

// Nothing is known yet of who has sent it. Nobody is told if it is not the one that it names.
void UdpDriver::add_packet(const Header& header, std::span<const std::byte> frame,
                           const sockaddr_in6& from) {
  if (last_sender_ == kNoPeer || peers_[last_sender_].number != header.from)
    last_sender_ = known(header.from);
  if (last_sender_ == kNoPeer && !trust_) last_sender_ = believe(header.from, from);
  came_by_[packet_count_] =
      last_sender_ == kNoPeer ? kNoRail : rail_from(peers_[last_sender_], from);
  packets_[packet_count_++] = {last_sender_, frame, !trust_};
}

}  // namespace torii::udp
