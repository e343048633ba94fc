// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/ni/turn_page.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "core/base/abstract_socket.h"
#include "core/base/log.h"

namespace torii {

namespace {

constexpr uint64_t kBytes = 4096;
// Connections are never used: they tell who listens. A holder that computes takes none for long.
constexpr int kBacklog = 4096;
constexpr const char* kMemory = "torii-turns";
static_assert(sizeof(TurnTable) <= kBytes);

Descriptor make_socket() {
  return Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

}  // namespace

std::string turn_page_name() {
  struct stat space;
  if (stat("/proc/self/ns/pid", &space) != 0) return {};
  return format_text("torii-turns-%u-%llu", geteuid(),
                     static_cast<unsigned long long>(space.st_ino));
}

ProcessorSet own_processors() {
  ProcessorSet set;
  cpu_set_t mine;
  const bool known = sched_getaffinity(0, sizeof(mine), &mine) == 0;
  for (unsigned i = 0; i < ProcessorSet::kWords * 64; ++i)
    if (!known || (i < CPU_SETSIZE && CPU_ISSET(i, &mine)))
      set.words[i / 64] |= uint64_t{1} << i % 64;
  return set;
}

bool TurnPage::look() {
  if (name_.empty()) return false;
  if (holds()) {
    for (;;) {
      const Descriptor visitor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!visitor) return false;
    }
  }
  const TurnTable* const before = table();
  const uint64_t inode = inode_;
  if (find() == Found::nobody && (before || make())) hold();
  return table() != before || inode_ != inode;
}

// `nothing`: somebody is there, but the page is out of reach.
TurnPage::Found TurnPage::find() {
  struct stat about;
  if (!held_at_.empty() && stat(held_at_.c_str(), &about) == 0 && about.st_ino == inode_)
    return Found::page;
  const AbstractAddress at(name_);
  const Descriptor call = make_socket();
  if (!call) return Found::nothing;
  if (connect(call.get(), at.get(), at.bytes()) != 0)
    return errno == ECONNREFUSED ? Found::nobody : Found::nothing;
  ucred holder{};
  if (!other_end(call.get(), &holder) || holder.uid != geteuid() || holder.pid <= 0)
    return Found::nothing;
  return adopt(uint32_t(holder.pid));
}

TurnPage::Found TurnPage::adopt(uint32_t pid) {
  const std::string folder = format_text("/proc/%u/fd", pid);
  DIR* const list = opendir(folder.c_str());
  if (!list) return Found::nothing;
  Found found = Found::nothing;
  const std::string wanted = std::string("/memfd:") + kMemory;
  while (const dirent* entry = found == Found::page ? nullptr : readdir(list)) {
    char target[64];
    const ssize_t n = readlinkat(dirfd(list), entry->d_name, target, sizeof(target));
    if (n < ssize_t(wanted.size()) || wanted.compare(0, wanted.size(), target, wanted.size()) != 0)
      continue;
    Descriptor fd(openat(dirfd(list), entry->d_name, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    struct stat about;
    if (fd && sealed(fd.get(), &about) && about.st_size == off_t(kBytes) &&
        take(std::move(fd), about)) {
      found = Found::page;
      held_at_ = folder + "/" + entry->d_name;
    }
  }
  closedir(list);
  return found;
}

bool TurnPage::take(Descriptor fd, const struct stat& about) {
  if (about.st_ino == inode_ && memory_) return true;
  Mapping memory;
  if (!memory.map(fd.get(), 0, kBytes)) return false;
  if (reinterpret_cast<TurnTable*>(memory.base())->magic.load() != TurnTable::kMagic) return false;
  fd_ = std::move(fd);
  memory_ = std::move(memory);
  inode_ = about.st_ino;
  return true;
}

bool TurnPage::make() {
  Descriptor fd = make_sealed(kBytes, kMemory);
  struct stat about;
  Mapping memory;
  if (!fd || fstat(fd.get(), &about) != 0 || !memory.map(fd.get(), 0, kBytes)) return false;
  (new (memory.base()) TurnTable{})->magic = TurnTable::kMagic;
  return take(std::move(fd), about);
}

// Another process may be faster; then the next look finds it.
bool TurnPage::hold() {
  const AbstractAddress at(name_);
  Descriptor listener = make_socket();
  if (!listener || bind(listener.get(), at.get(), at.bytes()) != 0 ||
      listen(listener.get(), kBacklog) != 0)
    return false;
  listener_ = std::move(listener);
  return true;
}

}  // namespace torii
