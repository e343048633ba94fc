// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The identity of a peer: its address, its keys, and the seal of frames to it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/link/link_driver.h"

namespace torii::link {
namespace {

constexpr uint64_t kRefusalGapNs = 1000000000;
constexpr size_t kTriedMost = 4096;  // processes of which no proof has come yet

// Two keys of one direction.
void split(const SecretKey& secret, TagKey* frames, TagKey* driver) {
  static_assert(sizeof(SecretKey) == 2 * sizeof(TagKey));
  std::copy_n(secret.begin(), frames->size(), frames->begin());
  std::copy_n(secret.begin() + sizeof(TagKey), driver->size(), driver->begin());
}

}  // namespace

bool LinkDriver::set_cipher() {
  Cipher cipher;
  std::string why;
  if (!find_cipher(params().link_cipher, &cipher, &why)) {
    TORII_ERROR("link: TORII_LINK_CIPHER: %s", why.c_str());
    return false;
  }
  if (cipher == Cipher::none) return true;
  if (caps_.inline_max < caps_.mtu) {
    TORII_ERROR(
        "link: TORII_LINK_CIPHER=%s: the driver below reads frames after they were sent; let it "
        "copy bodies of up to its mtu (inline_max)",
        params().link_cipher.c_str());
    return false;
  }
  cipher_ = std::make_unique<CipherSeal>(cipher);
  whole_tags_ = false;  // all that would be under them is under the cipher
  return true;
}

// The address below, then the public key.
void LinkDriver::address(std::byte* out) const {
  below_->address(out);
  std::ranges::copy(keys_->own(), out + caps_.address_bytes - kPublicKeyBytes);
}

Status LinkDriver::connect(std::span<const std::byte> address, PeerId* id, std::string* why) {
  if (address.size() != caps_.address_bytes) {
    *why = format_text(
        "link: an address of %zu bytes is not one of %u; all processes of a job must use the same "
        "version",
        address.size(), caps_.address_bytes);
    return Status::invalid;
  }
  PublicKey key;
  std::ranges::copy(address.last(kPublicKeyBytes), key.begin());
  const Process* const process = process_of(key);
  if (!process) {
    *why =
        "link: the address has no key that this process can use; let libcrypto permit the same "
        "curves on all nodes";
    return Status::invalid;
  }
  if (process->ended) {
    *why = "link: this process has ended";
    return Status::unreachable;
  }
  const Status status = below_->connect(address.first(address.size() - key.size()), id, why);
  if (status != Status::ok) return status;
  if (!join(*id, key)) {
    if (!find(*id)) below_->disconnect(*id);
    *why = "link: two processes have given the same address or key; start the job again";
    return Status::invalid;
  }
  Peer& peer = *peers_[*id];
  if (peer.down == Status::ok) {
    watch(peer);
    return Status::ok;
  }
  *why = format_text("link: this peer is down (%s); disconnect it before you connect again",
                     status_text(peer.down));
  return Status::unreachable;
}

// Null: that is no key. The keys are kept, so that a stranger who shows the address of a member
// again and again is refused at little cost.
Process* LinkDriver::process_of(const PublicKey& key) {
  const auto known = processes_.find(key);
  if (known != processes_.end()) return &known->second;
  PairKeys pair, secrets;
  if (!keys_->agree(key, purpose_, &pair)) return nullptr;
  if (cipher_ && !keys_->agree(key, purpose_ + " " + cipher_name(cipher_->cipher()), &secrets))
    return nullptr;
  if (tried_ >= kTriedMost) {
    std::erase_if(processes_,
                  [](const auto& one) { return one.second.peer == kNoPeer && !one.second.ended; });
    tried_ = 0;
  }
  tried_++;
  Process& process = processes_[key];
  split(pair.to, &process.to.tag, &process.to_driver);
  split(pair.from, &process.from.tag, &process.from_driver);
  if (cipher_ && !cipher_->add_keys(secrets, &process.to, &process.from)) {
    processes_.erase(key);
    tried_--;
    return nullptr;
  }
  return &process;
}

bool LinkDriver::tag(PeerId id, std::span<const std::byte> text, uint64_t* out) const {
  const Peer* const peer = find(id);
  if (!peer || !peer->process) return false;
  *out = siphash(peer->process->to_driver, text);
  return true;
}

bool LinkDriver::is_right(PeerId id, std::span<const std::byte> text, uint64_t tag) const {
  const Peer* const peer = find(id);
  return peer && peer->process && siphash(peer->process->from_driver, text) == tag;
}

// From now on the peer is this process, which process_of() knows. Null: one of the two is somebody
// else's. For a peer never heard only an address is known, and it may have been a wrong one.
Process* LinkDriver::join(PeerId id, const PublicKey& key) {
  Process& process = processes_.at(key);
  const Peer* const known = find(id);
  if (known && known->process == &process) return &process;
  Peer* const other = find(process.peer);
  if (process.ended || (known && known->heard) || (other && other->heard)) return nullptr;
  if (other) {
    other->process = nullptr;
  } else {
    tried_--;
  }
  if (known && known->process) {
    known->process->peer = kNoPeer;
    tried_++;
  }
  process.peer = id;
  peer_of(id).process = &process;
  return &process;
}

// A hello from who was not connected: is it a member of the job, which the driver below knows at
// that address as the sender, or not at all? Then it is known from now on.
bool LinkDriver::introduces(Packet& packet, const Header& header) {
  const Hello hello = read_hello(packet.frame.subspan(kHeaderBytes));
  if (!members_ || hello.address.size() != caps_.address_bytes) return false;
  PublicKey key;
  std::ranges::copy(hello.address.last(kPublicKeyBytes), key.begin());
  if (key == keys_->own()) return false;
  if (!members_->admits(hello.who, hello.address)) {
    refuse(packet.frame, header, key);
    return false;
  }
  const Process* const process = process_of(key);
  if (!process || process->ended || process->peer != kNoPeer ||
      !tag_.open(opening_of(packet.frame, header, process->from)))
    return false;
  PeerId id = kNoPeer;
  std::string why;
  const auto address = hello.address.first(hello.address.size() - kPublicKeyBytes);
  if (below_->connect(address, &id, &why) != Status::ok) return false;
  if ((id == packet.from || packet.from == kNoPeer) && join(id, key)) {
    packet.from = id;
    return true;
  }
  if (!find(id)) below_->disconnect(id);
  return false;
}

// A process that has asked in vain for the whole deadline is told that it is no member, if that is
// certain, so that it does not wait for ever. Few are: a key costs time, and it may be anybody.
void LinkDriver::refuse(std::span<const std::byte> frame, const Header& header,
                        const PublicKey& key) {
  const Hello hello = read_hello(frame.subspan(kHeaderBytes));
  if (!header.ask || now_ns_ < next_refusal_ns_ || !members_->excludes(hello.who)) return;
  next_refusal_ns_ = now_ns_ + kRefusalGapNs;
  Process* const process = process_of(key);
  if (!process || process->ended || process->peer != kNoPeer ||
      !tag_.open(opening_of(frame, header, process->from)))
    return;
  PeerId id = kNoPeer;
  std::string why;
  const auto address = hello.address.first(hello.address.size() - key.size());
  if (below_->connect(address, &id, &why) != Status::ok || find(id)) return;
  if (!std::exchange(refusal_told_, true))
    TORII_WARN(
        "link: a process that says it is rank %u of this job is not heard: the launcher knows "
        "another address of that rank, or none",
        hello.who.rank);
  Peer stranger(new_rail());
  stranger.process = process;
  send_control(id, stranger, Kind::bye, kFirstRail, true);
  forget_later(id);
}

// The settings for the cipher must be the same. Where they differ the peer ends at both processes:
// the other one learns this one's by a hello, too, which goes more than once, as a bye does.
bool LinkDriver::agrees(PeerId id, Peer& peer, const Hello& hello) {
  if (hello.cipher == own_cipher()) return true;
  troubles_.emplace_back(
      id, format_text("it has TORII_LINK_CIPHER=%s, this process %s; set it to the same in all "
                      "processes of the job",
                      cipher_name(hello.cipher), cipher_name(own_cipher())));
  for (int i = 0; i < kByes; i++)
    send_control(id, peer, Kind::hello, static_cast<uint8_t>(i % kRailsMax));
  end(id, peer, Status::peer_dead);
  return false;
}

// The numbers of a living peer go on counting if it is connected again, so its state stays, and
// with it the driver's below.
void LinkDriver::disconnect(PeerId id) {
  disconnected_++;
  const bool known = id < peers_.size() && peers_[id];
  if (known) peers_[id]->watched = false;
  if (known && peers_[id]->down == Status::ok) return;
  if (known) {
    if (Process* const process = peers_[id]->process) process->ended = true;
    std::erase(active_, id);
    drop_sent(*peers_[id], peers_[id]->down);
    std::erase_if(troubles_, [&](const auto& one) { return one.first == id; });
    peers_[id].reset();
  }
  below_->disconnect(id);
}

}  // namespace torii::link
