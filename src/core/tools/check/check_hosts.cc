// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/check/check_hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "core/tools/check/check_plan.h"
#include "core/tools/check/check_stream.h"

extern char** environ;

namespace torii::check {
namespace {

constexpr size_t kNoiseMax = 1 << 16;  // what a remote shell may print before the greeting
constexpr size_t kErrorsMax = 4096;    // of what it complained; the end of it is kept

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return format_text("killed by signal %d", WTERMSIG(status));
  return format_text("exit status %d", WEXITSTATUS(status));
}

// A shell on the other side reads this word.
std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// A process on a host, and the remote shell that leads there.
class Part {
 public:
  Part() = default;
  Part(const Part&) = delete;
  ~Part() { hang_up(); }

  void start(const HostsOptions& options, const std::string& host) {
    int in[2], out[2], errors[2];
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(errors, O_CLOEXEC)) {
      why_ = format_text("no pipe to it: %s; raise the limit of open files (ulimit -n)",
                         std::strerror(errno));
      return;
    }
    pid_ = fork();
    if (pid_ == 0) become(options, host, in[0], out[1], errors[1]);
    for (const int fd : {in[0], out[1], errors[1]}) close(fd);
    in_ = in[1], out_ = out[0], errors_ = errors[0];
    for (const int fd : {in_, out_, errors_}) fcntl(fd, F_SETFL, O_NONBLOCK);
    if (pid_ < 0) why_ = format_text("it cannot be started: %s", std::strerror(errno));
  }

  void give(std::span<const std::byte> block) {
    append_block(&unsent_, block);
    flush();
  }
  // The next block that came from there; it may come later, or never.
  bool take(Bytes* block) {
    std::span<const std::byte> rest = input_, one;
    if (!greeted_ || !take_block(&rest, &one)) return false;
    block->assign(one.begin(), one.end());
    input_.erase(input_.begin(), input_.end() - static_cast<ptrdiff_t>(rest.size()));
    return true;
  }

  void add_to(std::vector<pollfd>* set) const {
    if (out_ >= 0) set->push_back({out_, POLLIN, 0});
    if (errors_ >= 0) set->push_back({errors_, POLLIN, 0});
    if (in_ >= 0 && !unsent_.empty()) set->push_back({in_, POLLOUT, 0});
  }
  // Moves what can be moved.
  void look() {
    flush();
    hear(&errors_, [&](const char* bytes, size_t count) {
      complaints_.append(bytes, count);
      if (complaints_.size() > kErrorsMax) complaints_.erase(0, complaints_.size() - kErrorsMax);
    });
    hear(&out_, [&](const char* bytes, size_t count) {
      const auto* from = reinterpret_cast<const std::byte*>(bytes);
      input_.insert(input_.end(), from, from + count);
    });
    if (!greeted_) look_for_greeting();
    uint32_t bytes = 0;
    std::span<const std::byte> head = input_;
    if (greeted_ && take_number(&head, &bytes) && bytes > kBlockMax)
      give_up("it does not speak as a part of torii-check does");
  }
  bool gone() const { return out_ < 0; }

  // Why there is nothing from it, if there is not.
  std::string why(double seconds) {
    if (!why_.empty()) return why_;
    const std::string words = last_line(complaints_);
    const std::string said = words.empty() ? "" : ": " + words;
    if (!gone()) return format_text("silent for %.1f s", seconds) + said;
    int status = 0;
    for (int i = 0; pid_ > 0 && i < 20; i++) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return "ended, " + how_it_ended(status) + said;
      }
      poll(nullptr, 0, 10);
    }
    return "hung up" + said;
  }

  void hang_up() {
    for (int* fd : {&in_, &out_, &errors_})
      if (*fd >= 0) close(std::exchange(*fd, -1));
  }
  // False: the remote shell has ended.
  bool alive() {
    if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
    return pid_ > 0;
  }
  void send_signal(int number) const { kill(pid_, number); }

 private:
  [[noreturn]] static void become(const HostsOptions& options, const std::string& host, int in,
                                  int out, int errors) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(in, 0);
    dup2(out, 1);
    dup2(errors, 2);
    std::vector<std::string> words = options.launch;
    words.push_back(host);
    words.push_back(quoted(options.program));
    words.push_back("--part");
    std::vector<char*> native;
    for (std::string& word : words) native.push_back(word.data());
    native.push_back(nullptr);
    execvp(native[0], native.data());
    dprintf(2, "%s: %s\n", native[0], std::strerror(errno));
    _exit(127);
  }

  void flush() {
    while (in_ >= 0 && !unsent_.empty()) {
      const ssize_t n = write(in_, unsent_.data(), unsent_.size());
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n <= 0) return unsent_.clear();  // it has gone, as its output will tell
      unsent_.erase(unsent_.begin(), unsent_.begin() + n);
    }
  }

  template <typename Take>
  static void hear(int* fd, Take take) {
    char buffer[16384];
    while (*fd >= 0) {
      const ssize_t n = read(*fd, buffer, sizeof buffer);
      if (n > 0) {
        take(buffer, static_cast<size_t>(n));
      } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close(std::exchange(*fd, -1));
      } else {
        return;
      }
    }
  }

  void look_for_greeting() {
    const std::string_view text(reinterpret_cast<const char*>(input_.data()), input_.size());
    const size_t at = text.find(kGreeting);
    greeted_ = at != std::string_view::npos;
    if (greeted_) {
      input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(at + kGreeting.size()));
    } else if (input_.size() > kNoiseMax) {
      give_up("what answers there is not this version of torii-check");
    }
  }
  void give_up(const char* why) {
    why_ = why;
    hang_up();
  }

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, errors_ = -1;
  bool greeted_ = false;
  Bytes unsent_, input_;
  std::string complaints_, why_;
};

// Until each living part has given a block, or time is over. Empty: it has not.
std::vector<Bytes> collect(std::vector<Part>& parts, const std::vector<bool>& wanted,
                           uint64_t until_ns) {
  std::vector<Bytes> out(parts.size());
  for (;;) {
    std::vector<pollfd> set;
    bool waiting = false;
    for (size_t i = 0; i < parts.size(); i++) {
      parts[i].look();
      if (!wanted[i] || !out[i].empty() || parts[i].take(&out[i]) || parts[i].gone()) continue;
      waiting = true;
      parts[i].add_to(&set);
    }
    const uint64_t now = clock_ns();
    if (!waiting || now >= until_ns) return out;
    poll(set.data(), set.size(), static_cast<int>((until_ns - now) / kMs + 1));
  }
}

// Remote shells may take a moment to end; then they are told to, and then killed.
void end_all(std::vector<Part>& parts) {
  constexpr int kToldAt = 10, kKilledAt = 60, kEnd = 100;
  for (Part& part : parts) part.hang_up();
  for (int i = 0; i < kEnd; i++) {
    bool any = false;
    for (Part& part : parts) {
      if (!part.alive()) continue;
      any = true;
      if (i == kToldAt) part.send_signal(SIGTERM);
      if (i == kKilledAt) part.send_signal(SIGKILL);
    }
    if (!any) return;
    poll(nullptr, 0, 5);
  }
}

Orders orders_for(const HostsOptions& options) {
  Orders orders;
  orders.size = static_cast<uint32_t>(options.hosts.size());
  orders.deadline_ms = static_cast<uint32_t>(options.deadline_ms);
  orders.multicast_ms = static_cast<uint32_t>(options.multicast_ms);
  for (char** at = environ; *at; at++) {
    const std::string text = *at;
    const size_t equals = text.find('=');
    if (text.starts_with("TORII_") && equals != std::string::npos)
      orders.variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return orders;
}

}  // namespace

std::vector<Participant> check_hosts(const HostsOptions& options) {
  signal(SIGPIPE, SIG_IGN);
  const uint64_t begin = clock_ns();
  const size_t count = options.hosts.size();
  std::vector<Participant> all(count);
  std::vector<Part> parts(count);
  Orders orders = orders_for(options);
  for (size_t i = 0; i < count; i++) {
    all[i].name = options.hosts[i];
    parts[i].start(options, options.hosts[i]);
    orders.rank = static_cast<uint32_t>(i);
    parts[i].give(encode(orders));
  }
  const auto seconds = [&] { return static_cast<double>(clock_ns() - begin) / 1e9; };
  std::vector<bool> wanted(count, true);
  std::vector<Bytes> facts = collect(parts, wanted, begin + options.deadline_ms * kMs / 2);
  for (size_t i = 0; i < count; i++) {
    all[i].present = wanted[i] = !facts[i].empty() && decode(facts[i], &all[i].facts);
    if (all[i].present) continue;
    all[i].why = facts[i].empty() ? parts[i].why(seconds()) : "it is of another version";
    facts[i].clear();
    parts[i].hang_up();
  }
  const Bytes table = encode(facts);
  for (size_t i = 0; i < count; i++)
    if (wanted[i]) parts[i].give(table);
  const std::vector<Bytes> seen =
      collect(parts, wanted, begin + (options.deadline_ms + options.multicast_ms) * kMs);
  for (size_t i = 0; i < count; i++) {
    if (!wanted[i]) continue;
    all[i].reported = !seen[i].empty() && decode(seen[i], &all[i].seen);
    if (!all[i].reported) all[i].why = parts[i].why(seconds());
  }
  end_all(parts);
  return all;
}

bool parse_hosts(const std::string& text, std::vector<std::string>* out, std::string* why) {
  constexpr unsigned kMost = 1024;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    std::string host = text.substr(at, comma - at);
    at = comma + 1;
    unsigned processes = 1;
    char rest = 0;
    const size_t colon = host.rfind(':');
    if (colon != std::string::npos) {
      const std::string number = host.substr(colon + 1);
      if (sscanf(number.c_str(), "%u%c", &processes, &rest) != 1 || !processes ||
          processes > kMost) {
        *why = "--hosts " + text + ": '" + number + "' is no number of processes (HOST:NUMBER)";
        return false;
      }
      host.resize(colon);
    }
    if (host.empty() || host[0] == '-' || host.find_first_of(" \t'\"\\;&|$`") != host.npos) {
      *why = "--hosts " + text + ": '" + host + "' is no name of a host";
      return false;
    }
    out->insert(out->end(), processes, host);
  }
  if (out->size() <= kMost) return true;
  *why = format_text("--hosts: %zu processes are too many, %u are the most", out->size(), kMost);
  return false;
}

}  // namespace torii::check
