// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

#include <netinet/udp.h>

#include <cstring>
#include <iterator>

#include "drivers/udp/nic.h"

namespace torii::udp {

inline constexpr size_t kOutboxPieces = 2 + 16;  // of a frame: header and head, body, padding

// The frames of one system call. Frames of the same size to the same peer, in a row, travel through
// the kernel as one buffer; only the last of them may be shorter.
class UdpDriver::Outbox {
 public:
  struct Message {
    PeerId peer;
    uint8_t rail;
    size_t frames;
    size_t bytes;
    size_t size;  // of the first frame
    bool closed;
    bool longer;
  };

  explicit Outbox(UdpDriver& nic) : nic_(nic) {}
  void clear() { frames_ = pieces_used_ = count_ = 0; }

  // By that rail. False: it is full.
  bool add(const Tx& tx, uint8_t rail) {
    if (frames_ == kBatchMax || pieces_used_ + kOutboxPieces > std::size(pieces_)) return false;
    const Peer& peer = nic_.peers_[tx.peer];
    const Socket& direct = peer.group ? peer.group_socket : peer.rails[rail].direct;
    const Socket& socket = direct.fd >= 0 ? direct : nic_.socket_;
    if (frames_ && socket.fd != socket_.fd) return false;
    socket_ = socket;
    const size_t size = kHeaderBytes + tx.head_bytes + tx.body_bytes;
    if (size > nic_.datagram_max_) return add_longer(tx, rail);
    if (size > peer.rails[rail].size.bytes()) return add_pieces(tx, rail);
    Message* m = open_message(tx.peer, rail, 1);
    if (!m || size > m->size) m = begin(tx.peer, rail, size);
    // A few bytes less would end the buffer.
    const size_t missing = m->size - size;
    Header header;
    if (missing <= kPaddingMax) header.padding = static_cast<uint8_t>(missing);
    header.kind = peer.group ? Kind::group : Kind::data;
    address(&header, peer);
    add_frame(header, tx);
    add_piece(const_cast<std::byte*>(kZeros), header.padding);
    m->frames++;
    m->bytes += size + header.padding;
    m->closed = size + header.padding < m->size;
    return true;
  }

  // Returns how many messages the kernel took, or -1 with errno.
  int flush() {
    for (size_t i = 0; i < count_; i++) {
      if (messages_[i].bytes <= messages_[i].size) continue;
      msghdr& h = native_[i].msg_hdr;
      h.msg_control = &control_[i];
      h.msg_controllen = sizeof(control_[i]);
      cmsghdr* c = CMSG_FIRSTHDR(&h);
      c->cmsg_level = SOL_UDP;
      c->cmsg_type = UDP_SEGMENT;
      c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
      const auto size = static_cast<uint16_t>(messages_[i].size);
      std::memcpy(CMSG_DATA(c), &size, sizeof(size));
    }
    constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
    const msghdr& first = native_[0].msg_hdr;
    if (count_ > 1) return sendmmsg(socket_.fd, native_, static_cast<unsigned>(count_), kFlags);
    if (frames_ > 1 || first.msg_iovlen > 1)
      return sendmsg(socket_.fd, &first, kFlags) < 0 ? -1 : 1;
    // The shortest way into the kernel, for short frames.
    const ssize_t bytes = sendto(socket_.fd, pieces_[0].iov_base, pieces_[0].iov_len, kFlags,
                                 static_cast<sockaddr*>(first.msg_name), first.msg_namelen);
    return bytes < 0 ? -1 : 1;
  }

  size_t count() const { return count_; }
  const Message& message(size_t i) const { return messages_[i]; }

 private:
  static constexpr std::byte kZeros[kPaddingMax]{};

  // A buffer of its own, whose first datagram alone has a header.
  bool add_longer(const Tx& tx, uint8_t rail) {
    const Peer& peer = nic_.peers_[tx.peer];
    Message* m = begin(tx.peer, rail, peer.rails[rail].size.bytes());
    Header header;
    header.kind = Kind::longer;
    address(&header, peer);
    header.size = tx.head_bytes + tx.body_bytes;
    add_frame(header, tx);
    m->frames = 1;
    m->bytes = kLongerBytes + header.size;
    m->closed = m->longer = true;
    return true;
  }

  // Datagrams as long as this path carries, all of one length. Retransmissions of a frame that was
  // made before go so, too, when the path has become worse.
  bool add_pieces(const Tx& tx, uint8_t rail) {
    const Peer& peer = nic_.peers_[tx.peer];
    const size_t bytes = tx.head_bytes + tx.body_bytes;
    const size_t room_each = peer.rails[rail].size.bytes() - kPieceBytes;
    const size_t count = (bytes + room_each - 1) / room_each;
    const size_t each = piece_bytes(bytes, count);
    if (frames_ + count > kBatchMax) return false;
    if (pieces_used_ + 2 * count + kOutboxPieces > std::size(pieces_)) return false;
    Message* m = open_message(tx.peer, rail, count);
    if (!m || kPieceBytes + each != m->size) m = nullptr;
    Header header;
    header.kind = Kind::piece;
    address(&header, peer);
    header.number = nic_.pieced_++;
    header.size = static_cast<uint32_t>(bytes);
    header.count = static_cast<uint8_t>(count);
    std::span<const iovec> body(tx.pieces, tx.piece_count);
    size_t offset = 0;
    for (; header.index < count; header.index++) {
      if (!m || !peer.rails[rail].segments) m = begin(tx.peer, rail, kPieceBytes + each);
      const size_t head = header.index ? 0 : tx.head_bytes;
      std::byte* out = headers_[frames_++];
      write_header(header, out);
      std::memcpy(out + kPieceBytes, tx.head, head);
      add_piece(out, kPieceBytes + head);
      size_t room = each - head;
      while (room && !body.empty()) {
        const size_t part = std::min(room, body[0].iov_len - offset);
        add_piece(static_cast<std::byte*>(body[0].iov_base) + offset, part);
        room -= part;
        offset += part;
        if (offset < body[0].iov_len) continue;
        body = body.subspan(1);
        offset = 0;
      }
      add_piece(const_cast<std::byte*>(kZeros), room);
      m->frames += header.index == 0;
      m->bytes += m->size;
    }
    nic_.counters_.udp_pieced++;
    return true;
  }

  void address(Header* header, const Peer& peer) const {
    header->to = tag_of(peer.number);
    header->from = nic_.own_.number;
  }

  // The last message, if so many more of its datagrams to this peer may join it.
  Message* open_message(PeerId id, uint8_t rail, size_t count) {
    Message* m = count_ ? &messages_[count_ - 1] : nullptr;
    const bool joins = m && m->peer == id && m->rail == rail && !m->closed &&
                       nic_.peers_[id].rails[rail].segments &&
                       m->bytes + count * m->size <= kBufferMax;
    return joins ? m : nullptr;
  }

  Message* begin(PeerId id, uint8_t rail, size_t size) {
    msghdr& h = native_[count_].msg_hdr;
    h = {};
    if (nic_.peers_[id].rails[rail].direct.fd < 0) {
      to_native(nic_.peers_[id].rails[rail].path, socket_.ipv6, &to_[count_]);
      h.msg_name = &to_[count_].ipv6;
      h.msg_namelen = to_[count_].length;
    }
    h.msg_iov = &pieces_[pieces_used_];
    Message* m = &messages_[count_++];
    *m = Message{id, rail, 0, 0, size, false, false};
    return m;
  }

  // Few long pieces: each of them costs the kernel as much as copying some hundred bytes.
  void add_frame(const Header& header, const Tx& tx) {
    std::byte* bytes = headers_[frames_++];
    const size_t head = write_header(header, bytes);
    std::memcpy(bytes + head, tx.head, tx.head_bytes);
    add_piece(bytes, head + tx.head_bytes);
    for (uint32_t i = 0; i < tx.piece_count; i++)
      add_piece(tx.pieces[i].iov_base, tx.pieces[i].iov_len);
  }

  void add_piece(void* base, size_t bytes) {
    if (!bytes) return;
    pieces_[pieces_used_++] = {base, bytes};
    native_[count_ - 1].msg_hdr.msg_iovlen++;
  }

  struct alignas(cmsghdr) Control {
    std::byte bytes[CMSG_SPACE(sizeof(uint16_t))];
  };

  UdpDriver& nic_;
  Socket socket_;
  size_t frames_ = 0;
  size_t pieces_used_ = 0;
  size_t count_ = 0;
  std::byte headers_[kBatchMax][kPieceBytes + kHeadMax];
  iovec pieces_[kBatchMax * 3];
  Message messages_[kBatchMax];
  mmsghdr native_[kBatchMax];
  NativeAddress to_[kBatchMax];
  Control control_[kBatchMax];
};

}  // namespace torii::udp
