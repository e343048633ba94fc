// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// PMI-1, the line protocol of MPICH's mpiexec (hydra): "cmd=NAME key=value ...\n" over a socket
// that the process inherits (PMI_FD) or connects to (PMI_PORT, PMI_ID).
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/boot/launcher.h"

namespace torii {
namespace {

constexpr size_t kLineMax = 1 << 16;
constexpr uint32_t kRankMax = 1u << 30;
// Characters of a value, if the launcher allows more. Hydra of MPICH 4.2 ends the job where a line
// has more than 1,023.
constexpr size_t kPieceMax = 800;
constexpr int64_t kFarewellMs = 2000;

// A question to the resolver, which has deadlines of its own.
struct NameLookup {
  NameLookup() = default;
  NameLookup(const NameLookup&) = delete;
  ~NameLookup() {
    if (found) freeaddrinfo(found);
  }
  std::string host, service;
  addrinfo* found = nullptr;
  int error = 0;
};

// One answer of the launcher.
class Answer {
 public:
  explicit Answer(std::string line) : line_(std::move(line)) {}
  // The value of `key`; empty if it is missing.
  std::string_view operator[](std::string_view key) const {
    std::string_view rest = line_;
    while (!rest.empty()) {
      std::string_view token = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(token.size() + 1, rest.size()));
      if (token.size() > key.size() && token[key.size()] == '=' &&
          token.substr(0, key.size()) == key) {
        return token.substr(key.size() + 1);
      }
    }
    return {};
  }
  const std::string& line() const { return line_; }

 private:
  std::string line_;
};

class Pmi1Boot final : public Boot {
 public:
  ~Pmi1Boot() override {
    if (fd_ < 0) return;
    std::string why;
    Deadline farewell(kFarewellMs);
    if (greeted_ && !broken_ && send_line("cmd=finalize", farewell, &why) == Status::ok) {
      (void)read_answer("finalize_ack", farewell, &why);
    }
    close(fd_);
  }

  Status open(std::string* why) {
    Deadline deadline(params().boot_deadline_ms);
    Status s = getenv("PMI_FD") ? use_inherited(why) : connect_to_launcher(deadline, why);
    if (s != Status::ok) return s;
    std::string answer;
    s = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", "rc", &answer, why);
    if (s != Status::ok) return s;
    if (answer != "0") return refuse("it does not speak PMI version 1.1", why);
    greeted_ = true;
    s = ask("cmd=get_my_kvsname", "my_kvsname", "kvsname", &kvs_, why);
    if (s != Status::ok) return s;
    s = ask("cmd=get_maxes", "maxes", "vallen_max", &answer, why);
    if (s != Status::ok) return s;
    uint32_t value_max = 0;
    if (!parse_number(answer, 32, UINT32_MAX, &value_max)) {
      return refuse("its longest value is " + answer + " characters, 32 are needed", why);
    }
    piece_max_ = std::min<size_t>(value_max - 1, kPieceMax);
    info_.launcher = "PMI-1";
    info_.host = host_name();
    info_.job = job_number("pmi1:" + kvs_);
    return find_place(why);
  }

  Status barrier(std::string* why) override {
    Deadline deadline(params().boot_deadline_ms);
    Status s = send_line("cmd=barrier_in", deadline, why);
    if (s == Status::ok) s = read_answer("barrier_out", deadline, why);
    if (s == Status::timed_out) {
      *why = format_text(
          "not all %u processes of the job came within %lld ms; if they need longer, raise "
          "TORII_BOOT_DEADLINE_MS",
          info_.size, static_cast<long long>(params().boot_deadline_ms));
    }
    return s;
  }

 private:
  Status exchange(std::span<const std::byte> address, std::string* why) override {
    std::vector<std::string> pieces = encode_pieces(address, piece_max_);
    for (size_t i = 0; i < pieces.size(); ++i) {
      std::string rc;
      Status s =
          ask("cmd=put kvsname=" + kvs_ + " key=" + key(info_.rank, i) + " value=" + pieces[i],
              "put_result", "rc", &rc, why);
      if (s != Status::ok) return s;
      if (rc != "0") return refuse("it did not take the address of this process", why);
    }
    return barrier(why);
  }

  Status fetch(uint32_t rank, std::vector<std::byte>* address, std::string* why) override {
    std::string text;
    bool more = true;
    for (size_t i = 0; more; ++i) {
      std::string piece;
      Status s = get(key(rank, i), &piece, why);
      if (s != Status::ok) return s;
      text += piece;
      if (decode_pieces(text, address, &more)) return Status::ok;
    }
    *why = format_text("the address that the launcher has of rank %u is malformed", rank);
    return Status::corrupt;
  }

  Status list_nodes(std::vector<uint32_t>* nodes, std::string* why) override {
    std::string text;
    Status s = get("PMI_process_mapping", &text, why);
    if (s != Status::ok) return s;
    if (parse_process_mapping(text, info_.size, nodes)) return Status::ok;
    *why = "PMI_process_mapping=" + text.substr(0, 200) +
           " of the launcher is malformed; start the job with MPICH's mpiexec.hydra";
    return Status::corrupt;
  }

  Status find_place(std::string* why) {
    std::vector<uint32_t> nodes;
    Status s = list_nodes(&nodes, why);
    if (s != Status::ok) return s;
    info_.node = nodes[info_.rank];
    info_.local_rank =
        static_cast<uint32_t>(std::count(nodes.begin(), nodes.begin() + info_.rank, info_.node));
    info_.local_size = static_cast<uint32_t>(std::count(nodes.begin(), nodes.end(), info_.node));
    return Status::ok;
  }

  Status use_inherited(std::string* why) {
    uint32_t fd = 0;
    if (!read_number("PMI_FD", 0, 1 << 20, &fd, why) ||
        !read_number("PMI_SIZE", 1, kRankMax, &info_.size, why) ||
        !read_number("PMI_RANK", 0, info_.size - 1, &info_.rank, why)) {
      return Status::invalid;
    }
    int flags = fcntl(static_cast<int>(fd), F_GETFD);
    if (flags < 0) {
      *why = format_text(
          "PMI_FD=%u is not open: another part of this process has finished PMI, or the variable "
          "was inherited by a process that the launcher did not start; unset PMI_FD for that one",
          fd);
      return Status::io_error;
    }
    fd_ = static_cast<int>(fd);
    fcntl(fd_, F_SETFD, flags | FD_CLOEXEC);
    return Status::ok;
  }

  // The launcher gives size and rank over the connection.
  Status connect_to_launcher(const Deadline& deadline, std::string* why) {
    std::string place = getenv("PMI_PORT");
    size_t colon = place.rfind(':');
    uint32_t id = 0;
    if (!read_number("PMI_ID", 0, kRankMax, &id, why)) return Status::invalid;
    if (colon == std::string::npos) {
      *why = "PMI_PORT=" + place + ": expected host:port";
      return Status::invalid;
    }
    auto lookup = std::make_shared<NameLookup>();
    lookup->host = place.substr(0, colon);
    lookup->service = place.substr(colon + 1);
    const Status asked = run_with_deadline([lookup] {
      addrinfo hints = {};
      hints.ai_socktype = SOCK_STREAM;
      lookup->error =
          getaddrinfo(lookup->host.c_str(), lookup->service.c_str(), &hints, &lookup->found);
    });
    if (asked != Status::ok || lookup->error) {
      *why = "PMI_PORT=" + place + ": the name of the host is not found: " +
             (asked == Status::ok ? gai_strerror(lookup->error) : status_text(asked));
      return Status::unreachable;
    }
    int error = ETIMEDOUT;
    for (addrinfo* a = lookup->found; a && fd_ < 0; a = a->ai_next)
      fd_ = dial(*a, deadline, &error);
    if (fd_ < 0) {
      *why = "PMI_PORT=" + place + ": cannot connect to the launcher: " + strerror(error);
      return Status::unreachable;
    }
    return greet(id, deadline, why);
  }

  static int dial(const addrinfo& a, const Deadline& deadline, int* error) {
    int fd = socket(a.ai_family, a.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a.ai_protocol);
    if (fd < 0) {
      *error = errno;
      return -1;
    }
    *error = connect(fd, a.ai_addr, a.ai_addrlen) ? errno : 0;
    if (*error == EINPROGRESS) {
      socklen_t length = sizeof *error;
      if (wait_for(fd, POLLOUT, deadline) != Status::ok) {
        *error = ETIMEDOUT;
      } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, error, &length)) {
        *error = errno;
      }
    }
    if (*error == 0) return fd;
    close(fd);
    return -1;
  }

  Status greet(uint32_t id, const Deadline& deadline, std::string* why) {
    Status s = send_line(format_text("cmd=initack pmiid=%u", id), deadline, why);
    if (s == Status::ok) s = read_answer("initack", deadline, why);
    bool have_size = false, have_rank = false, have_debug = false;
    while (s == Status::ok && !(have_size && have_rank && have_debug)) {
      Answer answer("");
      s = read_answer("set", deadline, why, &answer);
      if (s != Status::ok) break;
      if (!answer["size"].empty()) {
        have_size = parse_number(answer["size"], 1, kRankMax, &info_.size);
      } else if (!answer["rank"].empty()) {
        have_rank = parse_number(answer["rank"], 0, kRankMax, &info_.rank);
      } else {
        have_debug = !answer["debug"].empty();
      }
    }
    if (s == Status::ok && info_.rank >= info_.size) {
      return refuse(
          "it gives rank " + std::to_string(info_.rank) + " of " + std::to_string(info_.size), why);
    }
    return s;
  }

  // A key can be put once: each exchange but the first adds its number.
  std::string key(uint32_t rank, size_t piece) const {
    const std::string name = "torii-" + std::to_string(rank) + "-" + std::to_string(piece);
    return exchanges_ > 1 ? name + "-" + std::to_string(exchanges_) : name;
  }

  Status get(const std::string& name, std::string* value, std::string* why) {
    Deadline deadline(params().boot_deadline_ms);
    Answer answer("");
    Status s = send_line("cmd=get kvsname=" + kvs_ + " key=" + name, deadline, why);
    if (s == Status::ok) s = read_answer("get_result", deadline, why, &answer);
    if (s != Status::ok) return s;
    if (answer["rc"] != "0" || answer["value"].empty()) {
      return refuse("it does not know " + name, why);
    }
    *value = answer["value"];
    return Status::ok;
  }

  // Sends one command and takes one value from its answer.
  Status ask(const std::string& command, const char* answer_name, const char* key,
             std::string* value, std::string* why) {
    Deadline deadline(params().boot_deadline_ms);
    Answer answer("");
    Status s = send_line(command, deadline, why);
    if (s == Status::ok) s = read_answer(answer_name, deadline, why, &answer);
    if (s != Status::ok) return s;
    *value = answer[key];
    if (value->empty()) return refuse("its answer lacks " + std::string(key), why);
    return Status::ok;
  }

  Status send_line(const std::string& line, const Deadline& deadline, std::string* why) {
    if (broken_) return refuse("the connection has failed before", why);
    Status s = send_all(fd_, (line + "\n").data(), line.size() + 1, deadline);
    return s == Status::ok ? s : lost(s, errno, why);
  }

  Status read_answer(std::string_view name, const Deadline& deadline, std::string* why,
                     Answer* answer = nullptr) {
    size_t end;
    while ((end = input_.find('\n')) == std::string::npos) {
      if (input_.size() > kLineMax) return refuse("it sent a line without end", why);
      char buffer[2048];
      Status s = wait_for(fd_, POLLIN, deadline);
      if (s != Status::ok) return lost(s, errno, why);
      ssize_t n = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
      if (n == 0) return lost(Status::io_error, ECONNRESET, why);
      if (n < 0 && errno != EINTR && errno != EAGAIN) return lost(Status::io_error, errno, why);
      if (n > 0) input_.append(buffer, static_cast<size_t>(n));
    }
    Answer got(input_.substr(0, end));
    input_.erase(0, end + 1);
    if (got["cmd"] != name) {
      return refuse("it answered \"" + got.line().substr(0, 200) +
                        "\" where cmd=" + std::string(name) + " was expected",
                    why);
    }
    if (answer) *answer = std::move(got);
    return Status::ok;
  }

  // After these nothing more can be asked: question and answer may be out of step.
  Status lost(Status s, int error, std::string* why) {
    broken_ = true;
    *why = s == Status::timed_out
               ? format_text("the PMI launcher did not answer within %lld ms",
                             static_cast<long long>(params().boot_deadline_ms))
               : format_text("the connection to the PMI launcher is lost: %s", strerror(error));
    return s;
  }
  Status refuse(const std::string& reason, std::string* why) {
    *why = "the PMI launcher cannot be used: " + reason;
    return Status::corrupt;
  }

  int fd_ = -1;
  bool greeted_ = false;
  bool broken_ = false;
  std::string kvs_;
  std::string input_;
  size_t piece_max_ = 0;
};

}  // namespace

std::unique_ptr<Boot> open_pmi1_boot(std::string* why) {
  auto boot = std::make_unique<Pmi1Boot>();
  if (boot->open(why) != Status::ok) return nullptr;
  return boot;
}

}  // namespace torii
