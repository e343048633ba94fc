// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Processes started by hand on one node. Every exchange is one gather at rank 0 and one
// broadcast over an abstract socket that exists only while it lasts: nothing keeps running and
// nothing is left behind. Only processes of the same user take part.
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/base/abstract_socket.h"
#include "core/base/descriptor.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/boot/launcher.h"

namespace torii {
namespace {

constexpr uint32_t kMagic = 0x4f424f54;
constexpr uint32_t kSizeMax = 512;
constexpr size_t kJobNameMax = 64;
constexpr size_t kErrorMax = 1024;

// Client to rank 0, followed by `bytes` bytes of address.
struct Hello {
  uint32_t magic, size, rank, node, bytes;
};
// Rank 0 to the clients, followed by `bytes` bytes: an error sentence, or for every rank a
// TableRow and after all rows the addresses in the order of ranks.
struct Reply {
  uint32_t magic, status, bytes;
};
struct TableRow {
  uint32_t node, bytes;
};

struct Client {
  Descriptor fd;
  std::vector<std::byte> input;
  bool complete = false;
  uint32_t rank = 0;
};

struct Entry {
  bool present = false;
  uint32_t node = 0;
  std::vector<std::byte> address;
};

template <typename T>
T read_struct(const std::byte* from) {
  T value;
  memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void append_struct(std::vector<std::byte>* to, const T& value) {
  to->resize(to->size() + sizeof value);
  memcpy(to->data() + to->size() - sizeof value, &value, sizeof value);
}

class EnvironmentBoot final : public Boot {
 public:
  Status open(std::string* why) {
    if (!read_number("TORII_SIZE", 1, kSizeMax, &info_.size, why) ||
        !read_number("TORII_RANK", 0, info_.size - 1, &info_.rank, why) || !read_node(why)) {
      return Status::invalid;
    }
    const char* job = getenv("TORII_JOB");
    job_ = job ? job : "default";
    bool printable =
        std::all_of(job_.begin(), job_.end(), [](char c) { return c > 0x20 && c < 0x7f; });
    if (job_.empty() || job_.size() > kJobNameMax || !printable) {
      *why = format_text("TORII_JOB=%s: expected 1 to %zu printable characters", job_.c_str(),
                         kJobNameMax);
      return Status::invalid;
    }
    info_.launcher = "environment";
    info_.host = host_name();
    info_.job = job_number(format_text("environment:%u:%s", geteuid(), job_.c_str()));
    return Status::ok;
  }

  Status barrier(std::string* why) override {
    std::vector<Entry> table;
    return gather({}, &table, why);
  }

 private:
  Status exchange(std::span<const std::byte> address, std::string* why) override {
    return gather(address, &table_, why);
  }

  Status fetch(uint32_t rank, std::vector<std::byte>* address, std::string*) override {
    *address = table_[rank].address;
    return Status::ok;
  }

  Status list_nodes(std::vector<uint32_t>* nodes, std::string*) override {
    for (uint32_t r = 0; r < info_.size; ++r) (*nodes)[r] = table_[r].node;
    return Status::ok;
  }

  // Without these variables all processes count as one node.
  bool read_node(std::string* why) {
    info_.local_rank = info_.rank;
    info_.local_size = info_.size;
    if (!getenv("TORII_NODE") && !getenv("TORII_LOCAL_RANK") && !getenv("TORII_LOCAL_SIZE")) {
      return true;
    }
    return read_number("TORII_NODE", 0, kNodeMax, &info_.node, why) &&
           read_number("TORII_LOCAL_SIZE", 1, info_.size, &info_.local_size, why) &&
           read_number("TORII_LOCAL_RANK", 0, info_.local_size - 1, &info_.local_rank, why);
  }

  // The address of this round's socket.
  AbstractAddress socket_address() const {
    return AbstractAddress(format_text("torii-boot-%u-%016llx-%u", geteuid(),
                                       static_cast<unsigned long long>(info_.job), round_));
  }

  Status gather(std::span<const std::byte> address, std::vector<Entry>* table, std::string* why) {
    table->assign(info_.size, Entry());
    (*table)[info_.rank] = {true, info_.node, {address.begin(), address.end()}};
    Status s = Status::ok;
    if (info_.size > 1) s = info_.rank == 0 ? serve(table, why) : join(address, table, why);
    ++round_;
    return s;
  }

  // --- rank 0 -----------------------------------------------------------------------------
  Status serve(std::vector<Entry>* table, std::string* why) {
    // A little earlier than the others give up, so that they hear who is missing.
    Deadline deadline(params().boot_deadline_ms * 9 / 10);
    Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const AbstractAddress address = socket_address();
    if (listener.get() < 0 || bind(listener.get(), address.get(), address.bytes()) ||
        listen(listener.get(), static_cast<int>(info_.size))) {
      *why = errno == EADDRINUSE
                 ? format_text(
                       "another process with TORII_RANK=0 is starting the job TORII_JOB=%s; "
                       "give every job a name of its own",
                       job_.c_str())
                 : format_text("cannot listen for the other processes: %s", strerror(errno));
      return Status::io_error;
    }
    std::vector<Client> clients;
    Status s = collect(listener.get(), deadline, &clients, table, why);
    Deadline end(params().boot_deadline_ms / 10 + 1);
    return reply(s, clients, *table, end, why);
  }

  Status collect(int listener, const Deadline& deadline, std::vector<Client>* clients,
                 std::vector<Entry>* table, std::string* why) {
    for (;;) {
      if (std::all_of(table->begin(), table->end(), [](const Entry& e) { return e.present; })) {
        return Status::ok;
      }
      std::vector<pollfd> entries = {{listener, POLLIN, 0}};
      for (const Client& c : *clients) entries.push_back({c.fd.get(), POLLIN, 0});
      int n = poll(entries.data(), entries.size(), deadline.left_ms());
      if (n == 0) return missing(*table, why);
      if (n < 0 && errno != EINTR) {
        *why = format_text("waiting for the other processes failed: %s", strerror(errno));
        return Status::io_error;
      }
      for (size_t i = entries.size(); n > 0 && i-- > 1;) {
        if (!entries[i].revents) continue;
        bool gone = false;
        Status s = hear(&(*clients)[i - 1], table, &gone, why);
        if (s != Status::ok) return s;
        if (gone) clients->erase(clients->begin() + static_cast<ptrdiff_t>(i - 1));
      }
      if (n > 0 && entries[0].revents) {
        Status s = accept_one(listener, clients, why);
        if (s != Status::ok) return s;
      }
    }
  }

  Status accept_one(int listener, std::vector<Client>* clients, std::string* why) {
    Descriptor fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.get() < 0) {
      if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return Status::ok;
      *why = format_text("cannot accept another process: %s", strerror(errno));
      return Status::io_error;
    }
    if (!same_user(fd.get())) {
      TORII_WARN("a process of another user wanted to join the job TORII_JOB=%s; it was refused",
                 job_.c_str());
      return Status::ok;
    }
    Client& c = clients->emplace_back();
    c.fd = std::move(fd);
    return Status::ok;
  }

  // Reads what a client has sent. *gone: it left before it said who it is.
  Status hear(Client* c, std::vector<Entry>* table, bool* gone, std::string* why) {
    std::byte buffer[2048];
    ssize_t n = recv(c->fd.get(), buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Status::ok;
    if (n <= 0) {
      *gone = !c->complete;
      if (*gone) return Status::ok;
      *why = format_text("rank %u ended while the job was starting", c->rank);
      return Status::peer_dead;
    }
    c->input.insert(c->input.end(), buffer, buffer + n);
    if (c->input.size() < sizeof(Hello)) return Status::ok;
    Hello hello = read_struct<Hello>(c->input.data());
    Status s = check(hello, *c, *table, why);
    if (s != Status::ok || c->input.size() < sizeof hello + hello.bytes) return s;
    c->complete = true;
    c->rank = hello.rank;
    (*table)[hello.rank] = {true, hello.node, {c->input.begin() + sizeof hello, c->input.end()}};
    return Status::ok;
  }

  Status check(const Hello& h, const Client& c, const std::vector<Entry>& table,
               std::string* why) const {
    if (h.magic != kMagic || h.bytes > kBootAddressMax || c.complete ||
        c.input.size() > sizeof h + h.bytes) {
      *why = format_text("a process of the job TORII_JOB=%s does not speak this version of Torii",
                         job_.c_str());
      return Status::corrupt;
    }
    if (h.size != info_.size) {
      *why = format_text("rank %u was started with TORII_SIZE=%u, rank 0 with TORII_SIZE=%u",
                         h.rank, h.size, info_.size);
      return Status::invalid;
    }
    if (h.rank >= info_.size || table[h.rank].present) {
      *why = format_text("two processes of the job TORII_JOB=%s were started with TORII_RANK=%u",
                         job_.c_str(), h.rank);
      return Status::invalid;
    }
    return Status::ok;
  }

  Status missing(const std::vector<Entry>& table, std::string* why) const {
    std::string ranks;
    unsigned count = 0, first = 0;
    for (uint32_t r = 0; r < info_.size; ++r) {
      if (table[r].present) continue;
      if (count == 0) first = r;
      if (++count <= 8) ranks += (count > 1 ? ", " : "") + std::to_string(r);
    }
    if (count > 8) ranks += ", ...";
    *why = format_text(
        "%s %s of %u did not come within %lld ms; start each as the same user, e.g. with "
        "TORII_JOB=%s TORII_SIZE=%u TORII_RANK=%u, or raise TORII_BOOT_DEADLINE_MS",
        count == 1 ? "rank" : "ranks", ranks.c_str(), info_.size,
        static_cast<long long>(params().boot_deadline_ms), job_.c_str(), info_.size, first);
    return Status::timed_out;
  }

  Status reply(Status status, const std::vector<Client>& clients, const std::vector<Entry>& table,
               const Deadline& deadline, std::string* why) const {
    std::vector<std::byte> body;
    if (status == Status::ok) {
      for (const Entry& e : table) {
        append_struct(&body, TableRow{e.node, static_cast<uint32_t>(e.address.size())});
      }
      for (const Entry& e : table) body.insert(body.end(), e.address.begin(), e.address.end());
    } else {
      const auto* text = reinterpret_cast<const std::byte*>(why->data());
      body.assign(text, text + std::min(why->size(), kErrorMax));
    }
    Reply head = {kMagic, static_cast<uint32_t>(status), static_cast<uint32_t>(body.size())};
    std::vector<std::byte> message;
    append_struct(&message, head);
    message.insert(message.end(), body.begin(), body.end());
    for (const Client& c : clients) {
      Status s = send_all(c.fd.get(), message.data(), message.size(), deadline);
      if (status != Status::ok || s == Status::ok || !c.complete) continue;
      *why = format_text("rank %u ended or stopped while the job was starting", c.rank);
      return Status::peer_dead;
    }
    return status;
  }

  // --- other ranks ------------------------------------------------------------------------
  Status join(std::span<const std::byte> address, std::vector<Entry>* table, std::string* why) {
    Deadline deadline(params().boot_deadline_ms);
    std::vector<std::byte> message;
    append_struct(&message, Hello{kMagic, info_.size, info_.rank, info_.node,
                                  static_cast<uint32_t>(address.size())});
    message.insert(message.end(), address.begin(), address.end());
    bool met = false;
    for (int pause_ms = 1; !deadline.passed(); pause_ms = std::min(2 * pause_ms, 50)) {
      Descriptor fd;
      Status s = dial(&fd, why);
      if (s == Status::ok) s = send_all(fd.get(), message.data(), message.size(), deadline);
      Reply head = {};
      if (s == Status::ok) {
        met = true;
        s = receive(fd.get(), &head, sizeof head, deadline);
      }
      if (s == Status::ok) return read_reply(fd.get(), head, deadline, table, why);
      if (s == Status::denied) return s;
      // No rank 0 yet, or one that ended, perhaps of an earlier job of this name: try again.
      if (s != Status::timed_out) poll(nullptr, 0, std::min(pause_ms, deadline.left_ms()));
    }
    *why = format_text(
        met ? "rank 0 of the job TORII_JOB=%s ended or did not hear of all processes within %lld ms"
            : "no process with TORII_RANK=0 of the job TORII_JOB=%s came within %lld ms; start it "
              "as the same user, or raise TORII_BOOT_DEADLINE_MS",
        job_.c_str(), static_cast<long long>(params().boot_deadline_ms));
    return Status::timed_out;
  }

  Status dial(Descriptor* fd, std::string* why) const {
    *fd = Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const AbstractAddress address = socket_address();
    if (fd->get() < 0 || connect(fd->get(), address.get(), address.bytes())) {
      return Status::io_error;
    }
    if (same_user(fd->get())) return Status::ok;
    *why = format_text(
        "another user holds the start-up socket of the job TORII_JOB=%s; choose "
        "another name",
        job_.c_str());
    return Status::denied;
  }

  static Status receive(int fd, void* to, size_t count, const Deadline& deadline) {
    auto* at = static_cast<std::byte*>(to);
    while (count) {
      Status s = wait_for(fd, POLLIN, deadline);
      if (s != Status::ok) return s;
      ssize_t n = recv(fd, at, count, 0);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return Status::io_error;
      at += n;
      count -= static_cast<size_t>(n);
    }
    return Status::ok;
  }

  Status read_reply(int fd, const Reply& head, const Deadline& deadline, std::vector<Entry>* table,
                    std::string* why) const {
    const size_t most = info_.size * (sizeof(TableRow) + kBootAddressMax);
    *why = "rank 0 sent a malformed answer";
    if (head.magic != kMagic || head.bytes > std::max(most, kErrorMax)) return Status::corrupt;
    std::vector<std::byte> body(head.bytes);
    if (receive(fd, body.data(), body.size(), deadline) != Status::ok) {
      *why = "rank 0 ended while the job was starting";
      return Status::peer_dead;
    }
    if (head.status != 0) {
      if (head.status > static_cast<uint32_t>(Status::io_error)) return Status::corrupt;
      why->assign(reinterpret_cast<const char*>(body.data()), body.size());
      return static_cast<Status>(head.status);
    }
    if (body.size() < info_.size * sizeof(TableRow)) return Status::corrupt;
    size_t at = info_.size * sizeof(TableRow);
    for (uint32_t r = 0; r < info_.size; ++r) {
      auto row = read_struct<TableRow>(body.data() + r * sizeof(TableRow));
      if (row.bytes > body.size() - at || row.bytes > kBootAddressMax) return Status::corrupt;
      (*table)[r] = {true, row.node, {body.data() + at, body.data() + at + row.bytes}};
      at += row.bytes;
    }
    return at == body.size() ? Status::ok : Status::corrupt;
  }

  std::string job_;
  uint32_t round_ = 0;
  std::vector<Entry> table_;
};

}  // namespace

std::unique_ptr<Boot> open_environment_boot(std::string* why) {
  auto boot = std::make_unique<EnvironmentBoot>();
  if (boot->open(why) != Status::ok) return nullptr;
  return boot;
}

}  // namespace torii
