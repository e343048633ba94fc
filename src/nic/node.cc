// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/node.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/attach.h"
#include "core/base/log.h"
#include "nic/trace.h"

namespace torii::nic {
namespace {

constexpr uint64_t kPage = 4096;
// Addresses of a 32-bit bus: lent memory of the contexts, then what they map.
constexpr uint64_t kSharedAt = 0x01000000;
constexpr uint64_t kMappedAt = 0x40000000;
constexpr uint64_t kMappedEnd = 0xf0000000;
// Beyond them, for a card that has such: the memory of the processes, as find_page() gives it.
constexpr uint64_t kProcess = uint64_t{1} << 63;
// An aarch64 has addresses of 48 bits, an x86-64 of 47.
constexpr unsigned kContextShift = 48, kOpenedShift = 56;
constexpr uint64_t kProcessMask = (uint64_t{1} << kContextShift) - 1;
constexpr uint64_t kOpenedMask = 0x7f;

uint64_t whole_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// All of it at once, behind what was stored before.
template <typename Word>
void store_word(uintptr_t to, const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  __atomic_store_n(reinterpret_cast<Word*>(to), word, __ATOMIC_RELEASE);
}

}  // namespace

Node::Node(Fabric& owner, uint32_t n)
    : fabric(owner),
      number(n),
      contexts(owner.kind().contexts),
      bus(owner.engine(), owner.kind().bus, *this, format_text("bus%u", n)),
      file_(make_sealed_for_readers(owner.kind().memory_bytes, "torii-card", &memory_)),
      words_(owner.endpoints()) {
  bus.changed = [this] {
    for (const Context& context : contexts)
      if (context.host) context.host->changed();
  };
}

// --- processes -------------------------------------------------------------------------------

uint64_t Node::shared_address(unsigned context) const {
  const uint64_t each = whole_pages(fabric.kind().shared_bytes);
  // Another one than before: the card may still be about to write there.
  return kSharedAt + (2 * context + opened_of(contexts[context].name) % 2) * (each + kPage);
}

Lent::Lent(uint32_t all, size_t n)
    : endpoints(all),
      bytes(n),
      file(make_sealed(liveness_bytes(all) + n, "torii-card")),
      event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (file) static_cast<void>(memory.map(file.get(), 0, liveness_bytes(all) + n));
}

Status Node::open(unsigned context, Host* host, ProcessMemory* memory, std::string* why) {
  Context& c = contexts[context];
  auto lent = std::make_shared<Lent>(fabric.endpoints(), fabric.kind().shared_bytes);
  if (!*lent) {
    *why = format_text(
        "node %u: no memory of %zu bytes or no event descriptor for another process "
        "(%m); raise the limits of memory or of open files",
        number, lent->bytes);
    return Status::no_memory;
  }
  c.state = Context::State::open;
  c.name = make_name(number * fabric.kind().contexts + context, opened_of(c.name) % 0xffff + 1);
  c.life = Life::there;
  for (uint32_t i = 0; i < words_.size(); i++) lent->words()[1 + i].store(words_[i]);
  c.lent = std::move(lent);
  c.host = host;
  c.memory = memory;
  mapped_[shared_address(context)] = {reinterpret_cast<uintptr_t>(c.lent->shared()), c.lent->bytes,
                                      kCardReads | kCardWrites, context, nullptr};
  model->open(context, c.name, shared_address(context));
  return Status::ok;
}

void Node::close(unsigned context) {
  Context& c = contexts[context];
  c.state = Context::State::closing;
  c.host = nullptr;
  c.memory = nullptr;
  std::erase_if(mapped_,
                [&](const auto& m) { return m.second.context == context && m.second.memory; });
}

void Node::free(unsigned context) {
  Context& c = contexts[context];
  if (c.state == Context::State::free) return;
  model->gone(context);
  close(context);
  std::erase_if(mapped_, [&](const auto& m) { return m.second.context == context; });
  c.state = Context::State::free;
  c.lent.reset();
}

void Node::publish(uint32_t endpoint, uint32_t word) {
  if (std::exchange(words_[endpoint], word) == word) return;
  for (const Context& context : contexts)
    if (context.lent) context.lent->words()[1 + endpoint].store(word);
  tell();
}

Life Node::life(Name name) const {
  if (endpoint_of(name) >= words_.size()) return Life::never;
  const uint32_t word = words_[endpoint_of(name)];
  return word >> 16 == opened_of(name) ? static_cast<Life>(word & 3) : Life::dead;
}

void Node::tell() {
  for (unsigned i = 0; i < contexts.size(); i++) {
    if (contexts[i].lent) contexts[i].lent->words()[0].fetch_add(1);
    if (contexts[i].state == Context::State::open) interrupt(i);
  }
  bus.changed();
}

// --- memory ----------------------------------------------------------------------------------

Status Node::map(unsigned context, uintptr_t base, size_t n, uint32_t rights, uint64_t* address) {
  if (n == 0 || n > kMappedEnd - kMappedAt) return Status::invalid;
  // The first gap that is long enough; a page stays free behind each.
  const uint64_t in_page = base % kPage;
  const uint64_t bytes = whole_pages(in_page + n) + kPage;
  uint64_t at = kMappedAt;
  for (auto it = mapped_.lower_bound(kMappedAt); it != mapped_.end(); ++it) {
    if (it->first / kPage * kPage - at >= bytes) break;
    at = whole_pages(it->first + it->second.bytes) + kPage;
  }
  if (at + bytes > kMappedEnd) return Status::no_memory;
  *address = at + in_page;
  mapped_[*address] = {base, n, rights, context, contexts[context].memory};
  return Status::ok;
}

void Node::unmap(unsigned context, uint64_t address) {
  const auto it = mapped_.find(address);
  if (it != mapped_.end() && it->second.context == context && address >= kMappedAt)
    mapped_.erase(it);
}

// By the system, which knows what is mapped there.
Status Node::move_process(bool write, uint64_t address, std::span<std::byte> bytes) {
  const auto context = static_cast<unsigned>(address >> kContextShift & 0xff);
  // Whoever closes his card gives the memory back.
  if (context >= contexts.size() || contexts[context].state != Context::State::open ||
      (opened_of(contexts[context].name) & kOpenedMask) != (address >> kOpenedShift & kOpenedMask))
    return Status::denied;
  const uintptr_t at = address & kProcessMask;
  if (ProcessMemory* const memory = contexts[context].memory) return memory->move(write, at, bytes);
  const iovec here{bytes.data(), bytes.size()};
  const iovec there{reinterpret_cast<void*>(at), bytes.size()};
  int error;
  return attach_move({getpid(), nullptr, 0}, write, {&here, 1}, {&there, 1}, bytes.size(), &error);
}

bool Node::find_page(unsigned context, uint64_t at, uint64_t* address) {
  std::byte probe[1];
  *address = kProcess | (opened_of(contexts[context].name) & kOpenedMask) << kOpenedShift |
             uint64_t{context} << kContextShift | at;
  return at <= kProcessMask && move_process(false, *address, probe) == Status::ok;
}

const Node::Mapped* Node::find(uint64_t address, size_t bytes, uint32_t rights,
                               uintptr_t* at) const {
  auto it = mapped_.upper_bound(address);
  if (it == mapped_.begin()) return nullptr;
  const Mapped& mapped = (--it)->second;
  const uint64_t offset = address - it->first;
  *at = mapped.base + offset;
  const bool inside = offset <= mapped.bytes && bytes <= mapped.bytes - offset;
  return inside && (mapped.rights & rights) == rights ? &mapped : nullptr;
}

Status Node::move(bool write, uint64_t address, std::span<std::byte> bytes) {
  const size_t n = bytes.size();
  if (n == 0) return Status::ok;
  if (address & kProcess) return move_process(write, address, bytes);
  uintptr_t at;
  const Mapped* const mapped = find(address, n, write ? kCardWrites : kCardReads, &at);
  if (!mapped) return Status::denied;
  if (mapped->memory) return mapped->memory->move(write, at, bytes);
  if (!write) {
    std::memcpy(bytes.data(), reinterpret_cast<const void*>(at), n);
    return Status::ok;
  }
  // A process on another processor may be looking at the last word, or at a pair of them.
  const size_t word = n >= 8 && (at + n) % 8 == 0 ? 8 : n >= 4 && (at + n) % 4 == 0 ? 4 : 0;
  if (n > word) std::memcpy(reinterpret_cast<void*>(at), bytes.data(), n - word);
  if (word == 8) store_word<uint64_t>(at + n - word, &bytes[n - word]);
  if (word == 4) store_word<uint32_t>(at + n - word, &bytes[n - word]);
  return Status::ok;
}

void Node::interrupt(unsigned context) {
  const uint64_t one = 1;
  if (context >= contexts.size() || !contexts[context].lent) return;
  // The descriptor can only be full: then it is readable anyway.
  static_cast<void>(!::write(contexts[context].lent->event.get(), &one, sizeof(one)));
}

// --- the cable -------------------------------------------------------------------------------

void Node::mark(Packet& packet) {
  packet.number = fabric.packets_sent_++;
  packet.node = number;
  seal(packet);
}

void Node::send(unsigned context, Packet&& packet) {
  packet.flight = contexts[context].flight;
  mark(packet);
  out_->send(std::move(packet));
}

void Node::steal(std::vector<std::byte> bytes) {
  Packet packet;
  packet.bytes = std::move(bytes);
  mark(packet);
  out_->steal(std::move(packet));
}

void Node::link_down(Link& link, std::vector<Packet>&&) {
  model->port_down();
  fabric.link_down(link, {});  // there is one way out only
}

// --- the card, as its process sees it ----------------------------------------------------------

DirectCard::DirectCard(Node& node, unsigned context)
    : node_(node), context_(context), lent_(node.contexts[context].lent) {
  const CardKind& kind = node_.fabric.kind();
  info_ = {.fabric = node_.fabric.number_,
           .name = node_.contexts[context].name,
           .node = node_.number,
           .contexts = kind.contexts,
           .bar_bytes = kind.bar_bytes,
           .load_ns = static_cast<uint32_t>(kind.bus.read_ns),
           .shared_address = node_.shared_address(context)};
}

DirectCard::~DirectCard() {
  if (!alive()) return;
  node_.close(context_);
  node_.fabric.watch_closing(endpoint_of(info_.name), Fabric::kClosingStepNs);
}

bool DirectCard::inside(uint32_t at, size_t n) const {
  TORII_ASSERT(at % 4 == 0 && n % 4 == 0);
  return alive() && at <= info_.bar_bytes && n <= info_.bar_bytes - at;
}

void DirectCard::write(uint32_t at, const void* from, size_t n) {
  if (!inside(at, n)) return;
  if (Host* const host = node_.contexts[context_].host)
    host->spend_until(node_.bus.occupy(host->now_ns(), node_.bus.store_ns(n), "store"));
  node_.model->bus_write(context_, at, {static_cast<const std::byte*>(from), n});
}

void DirectCard::read(uint32_t at, void* to, size_t n) {
  if (n == 0) return;
  std::memset(to, 0xff, n);
  if (!inside(at, n)) return;
  if (Host* const host = node_.contexts[context_].host)
    host->spend_until(node_.bus.load(host->now_ns(), n));
  for (size_t i = 0; i < n; i += 4) {
    const uint32_t value = node_.model->bus_read(context_, at + static_cast<uint32_t>(i));
    std::memcpy(static_cast<std::byte*>(to) + i, &value, sizeof(value));
  }
}

Status DirectCard::map(void* base, size_t n, uint32_t rights, uint64_t* address) {
  return alive() ? node_.map(context_, reinterpret_cast<uintptr_t>(base), n, rights, address)
                 : Status::no_memory;
}

void DirectCard::unmap(uint64_t address) {
  if (alive()) node_.unmap(context_, address);
}

Status DirectCard::control(const Control& in, Control* out) {
  return alive() ? node_.model->control(context_, in, out) : Status::peer_dead;
}

}  // namespace torii::nic
