// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/protocol/wire.h"

#include <cstring>

#include "core/base/status.h"
#include "drivers/driver.h"

namespace torii::wire {

namespace {

void to_host(Tagged* h) {
  h->credit = little(h->credit);
  h->user = little(h->user);
  h->bits = little(h->bits);
}

void to_host(Announced* h) {
  h->credit = little(h->credit);
  h->user = little(h->user);
  h->bits = little(h->bits);
  h->length = little(h->length);
  h->op = little(h->op);
}

void to_host(Request* h) {
  h->credit = little(h->credit);
  h->key_bytes = little(h->key_bytes);
  h->ac_index = little(h->ac_index);
  h->pad = little(h->pad);
  h->bits = little(h->bits);
  h->hdr_data = little(h->hdr_data);
  h->length = little(h->length);
  h->offset = little(h->offset);
  h->op = little(h->op);
}

void to_host(Control* h) {
  h->credit = little(h->credit);
  h->key_bytes = little(h->key_bytes);
  h->reserved = little(h->reserved);
  h->op = little(h->op);
  h->sender_op = little(h->sender_op);
  h->length = little(h->length);
}

void to_host(Hello* h) {
  h->reserved = little(h->reserved);
  h->eager_window = little(h->eager_window);
  h->job = little(h->job);
  h->rank = little(h->rank);
  h->nid = little(h->nid);
  h->pid = little(h->pid);
  h->uid = little(h->uid);
  h->os_pid = little(h->os_pid);
  h->pad = little(h->pad);
}

void to_host(Update* h) {
  h->credit = little(h->credit);
  h->bits = little(h->bits);
  h->label = little(h->label);
  h->offset = little(h->offset);
  h->operand = little(h->operand);
  h->compare = little(h->compare);
  h->op = little(h->op);
}

void to_host(Updated* h) {
  h->credit = little(h->credit);
  h->pad = little(h->pad);
  h->op = little(h->op);
  h->old = little(h->old);
}

template <typename H>
bool take(std::span<const std::byte> bytes, H* header, std::span<const std::byte>* rest) {
  if (bytes.size() < sizeof(H)) return false;
  std::memcpy(header, bytes.data(), sizeof(H));
  to_host(header);
  *rest = bytes.subspan(sizeof(H));
  return true;
}

bool split_key(size_t key_bytes, std::span<const std::byte> rest, Frame* out) {
  if (key_bytes > kKeyMax || key_bytes > rest.size()) return false;
  out->key = rest.first(key_bytes);
  out->payload = rest.subspan(key_bytes);
  return true;
}

bool check_request(const Frame& f) {
  const Request& r = f.request;
  if (r.reserved != 0 || r.pad != 0) return false;
  if (r.flags & ~(kWantAck | kReady | kTaggedSpace | kMemorySpace)) return false;
  if ((r.flags & kMemorySpace) && ((r.flags & (kReady | kTaggedSpace)) || r.index || r.ac_index))
    return false;
  if (f.payload.size() > r.length) return false;
  switch (r.kind) {
    case Kind::put:
      return r.key_bytes == 0 && (f.payload.size() > 0 || r.length == 0);
    case Kind::put_announce:
      return f.payload.empty() && r.op != 0;
    case Kind::puts:
      return r.key_bytes == 0 && r.flags == (kWantAck | kMemorySpace) && r.offset == 0 &&
             f.payload.size() == r.length && r.length > 0 && r.op != 0;
    case Kind::get:
      return r.key_bytes == 0 && f.payload.empty() && r.op != 0;
    case Kind::getput:
      return r.key_bytes == 0 && f.payload.size() == r.length && r.op != 0 &&
             !(r.flags & kMemorySpace);
    default:
      return false;
  }
}

bool check_control(const Frame& f) {
  const Control& c = f.control;
  if (c.reserved != 0 || c.status > static_cast<uint8_t>(Status::io_error)) return false;
  const bool may_have_key = c.kind == Kind::reply_announce || c.kind == Kind::stream;
  if (c.key_bytes != 0 && !may_have_key) return false;
  switch (c.kind) {
    case Kind::reply:
      return f.payload.size() <= c.length;
    case Kind::more:
    case Kind::data:
    case Kind::data_end:
      return !f.payload.empty() && c.length <= ~uint64_t{0} - f.payload.size();
    case Kind::reply_announce:
    case Kind::stream:
      return f.payload.empty() && c.sender_op != 0;
    default:
      return f.payload.empty();
  }
}

// Which operations there are is the business of who carries them out.
bool check_update(const Update& u, size_t payload) {
  return u.locked <= 1 && u.reserved[0] == 0 && u.reserved[1] == 0 && u.op != 0 &&
         payload == (u.locked ? LockWord::kBytes : 0);
}

bool check_hello(const Hello& h) {
  return h.version == kVersion && h.reserved == 0 && h.pad == 0 && h.job != 0 &&
         std::memchr(h.host, 0, sizeof(h.host)) != nullptr;
}

template <typename H>
size_t put(H header, std::byte* out) {
  to_host(&header);  // the same swap in both directions
  std::memcpy(out, &header, sizeof(H));
  return sizeof(H);
}

}  // namespace

bool parse(std::span<const std::byte> bytes, Frame* out) {
  if (bytes.empty()) return false;
  const uint8_t kind = static_cast<uint8_t>(bytes[0]);
  if (kind == 0 || kind > kKindLast) return false;
  out->kind = static_cast<Kind>(kind);
  out->key = {};
  std::span<const std::byte> rest;
  switch (out->kind) {
    case Kind::tagged:
      return take(bytes, &out->tagged, &out->payload);
    case Kind::tagged_announce:
      return take(bytes, &out->announced, &rest) && split_key(rest.size(), rest, out) &&
             out->announced.op != 0;
    case Kind::put:
    case Kind::puts:
    case Kind::put_announce:
    case Kind::get:
    case Kind::getput:
      return take(bytes, &out->request, &rest) && split_key(out->request.key_bytes, rest, out) &&
             check_request(*out);
    case Kind::hello:
      return take(bytes, &out->hello, &out->payload) && out->payload.empty() &&
             check_hello(out->hello);
    case Kind::update:
      return take(bytes, &out->update, &out->payload) &&
             check_update(out->update, out->payload.size());
    case Kind::updated:
      return take(bytes, &out->updated, &out->payload) && out->payload.empty() &&
             out->updated.busy <= 1 && out->updated.pad == 0;
    default:
      return take(bytes, &out->control, &rest) && split_key(out->control.key_bytes, rest, out) &&
             check_control(*out);
  }
}

size_t encode(const Tagged& header, std::byte* out) { return put(header, out); }
size_t encode(const Announced& header, std::byte* out) { return put(header, out); }
size_t encode(const Request& header, std::byte* out) { return put(header, out); }
size_t encode(const Hello& header, std::byte* out) { return put(header, out); }
size_t encode(const Update& header, std::byte* out) { return put(header, out); }
size_t encode(const Updated& header, std::byte* out) { return put(header, out); }

}  // namespace torii::wire
