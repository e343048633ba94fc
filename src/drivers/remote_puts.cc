// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/remote_puts.h"

#include <array>
#include <cstring>

namespace torii {

bool RemotePuts::post_end(const Rma& rma, const CardMemory::Key& key, uint32_t front,
                          uint32_t back) {
  Head head{key.serial, next_put_, rma.remote_offset, rma.bytes, front, back};
  auto* const from = static_cast<std::byte*>(rma.bytes ? rma.pieces[0].iov_base : nullptr);
  const std::array<iovec, 3> pieces{iovec{&head, sizeof(head)}, iovec{from, front},
                                    iovec{back ? from + rma.bytes - back : nullptr, back}};
  if (!mail_.post(key.owner, kEnd, pieces, static_cast<uint32_t>(sizeof(head)) + front + back))
    return false;
  puts_[next_put_++] = {rma.peer, key.owner, rma.cookie};
  peers_.begin(rma.peer);
  return true;
}

// At the target: writes what is left, and finds the answer.
Status RemotePuts::finish(std::span<const std::byte> frame, uint32_t* id) {
  Head head;
  std::memcpy(&head, frame.data(), sizeof(head));
  *id = head.id;
  const std::span<const std::byte> edges = frame.subspan(sizeof(head));
  std::byte* const to = memory_.exported(head.serial, head.offset, head.bytes);
  if (!to || edges.size() != uint64_t{head.front} + head.back || edges.size() > head.bytes)
    return Status::invalid;
  if (head.front) std::memcpy(to, edges.data(), head.front);
  if (head.back) std::memcpy(to + head.bytes - head.back, &edges[head.front], head.back);
  return Status::ok;
}

void RemotePuts::receive(nic::Name from, uint32_t kind, std::span<const std::byte> frame) {
  if (kind == kEnd && frame.size() >= sizeof(Head)) {
    Answer answer{};
    answer.status = static_cast<uint32_t>(finish(frame, &answer.id));
    answers_.emplace_back(from, answer);
  } else if (kind == kAnswer && frame.size() == sizeof(Answer)) {
    Answer answer;
    std::memcpy(&answer, frame.data(), sizeof(answer));
    const auto put = puts_.find(answer.id);
    if (put == puts_.end() || put->second.name != from) return;
    const bool good = answer.status == static_cast<uint32_t>(Status::ok);
    peers_.end(put->second.peer, put->second.cookie, good ? Status::ok : Status::invalid);
    puts_.erase(put);
  }
}

// An answer for a process that has no room waits, and holds up no other.
void RemotePuts::answer() {
  std::erase_if(answers_, [this](auto& due) {
    auto& [name, answer] = due;
    const iovec piece{&answer, sizeof(answer)};
    return liveness_.life(name) != nic::Life::there ||
           mail_.post(name, kAnswer, {&piece, 1}, sizeof(answer));
  });
}

void RemotePuts::end_lost() {
  for (auto it = puts_.begin(); it != puts_.end();) {
    const Put& put = it->second;
    if (liveness_.life(put.name) == nic::Life::there) {
      ++it;
      continue;
    }
    peers_.end(put.peer, put.cookie, Status::peer_dead);
    it = puts_.erase(it);
  }
}

}  // namespace torii
