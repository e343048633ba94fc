// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/releases.h"

namespace torii::multicast {

uint64_t Releases::subtree() const {
  uint64_t least = done_;
  for (const uint64_t child : children_) least = std::min(least, child);
  return std::max(least, released_);
}

void Releases::on_done(uint64_t done, uint32_t lost) {
  done_ = done;
  lost_ = std::max(lost_, lost);
  report();
}

void Releases::on_asked(uint32_t node, uint64_t pos, bool again) {
  if (pos <= released_) {
    // The one that asks has missed the release.
    if (coordinates() && again) send_release(node);
    return;
  }
  if (pos > reported_) {
    note_asked(pos);
    report();
  } else if (again && !coordinates()) {
    send();
  }
}

void Releases::note_asked(uint64_t pos) {
  first_asked_ = first_asked_ ? std::min(first_asked_, pos) : pos;
  last_asked_ = std::max(last_asked_, pos);
}

bool Releases::on_status(uint32_t node, uint64_t asked, uint64_t done, uint32_t lost) {
  const uint32_t index = tree_.index_of(node);
  if (index >= children_.size()) return false;
  children_[index] = std::max(children_[index], done);
  lost_ = std::max(lost_, lost);
  if (asked > reported_ && asked > released_) note_asked(asked);
  report();
  return true;
}

void Releases::report() {
  if (!first_asked_) return;
  const uint64_t done = subtree();
  if (done < first_asked_) return;
  reported_ = done;
  answered_ = std::min(done, last_asked_);
  first_asked_ = last_asked_ > done ? last_asked_ : 0;
  if (coordinates()) {
    if (done <= released_) return;
    released_ = done;
    released_lost_ = lost_;
    lost_ = 0;
  }
  send();
}

// To all, or to the parent.
void Releases::send() {
  if (coordinates()) {
    owes_ = !outgoing_.to_all(release());
    return;
  }
  Header header;
  header.kind = Kind::status;
  header.pos = subtree();
  header.op = low_half(answered_);
  header.arg = lost_;
  owes_ = !outgoing_.to_one(tree_.parent(), header);
  if (!owes_) lost_ = 0;
}

void Releases::retry() {
  if (owes_) send();
}

Header Releases::release() const {
  Header header;
  header.kind = Kind::release;
  header.pos = released_;
  header.arg = released_lost_;
  return header;
}

void Releases::send_release(uint32_t node) {
  if (node == outgoing_.self()) return;
  Header header = release();
  header.flags = kUnicast;
  outgoing_.to_one(node, header);
}

void Releases::on_released(uint64_t released, uint32_t lost) {
  released = std::min(released, done_);  // it cannot be true without this node
  if (released <= released_) return;
  released_ = released;
  released_lost_ = lost;
  reported_ = std::max(reported_, released);
  if (first_asked_ && first_asked_ <= released_)
    first_asked_ = last_asked_ > released_ ? last_asked_ : 0;
}

}  // namespace torii::multicast
