// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/boot/boot.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "core/base/fnv.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/boot/launcher.h"

namespace torii {
namespace {

int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A process that nobody started as part of a job.
class SingletonBoot final : public Boot {
 public:
  SingletonBoot() {
    uint64_t chance = 0;
    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != sizeof chance) {
      chance = static_cast<uint64_t>(monotonic_ns());
    }
    info_.host = host_name();
    info_.job = job_number(
        format_text("%s:%ld:%lx", info_.host.c_str(), static_cast<long>(getpid()), chance));
    info_.launcher = "singleton";
  }
  Status barrier(std::string*) override { return Status::ok; }

 private:
  Status exchange(std::span<const std::byte> address, std::string*) override {
    address_.assign(address.begin(), address.end());
    return Status::ok;
  }
  Status fetch(uint32_t, std::vector<std::byte>* address, std::string*) override {
    *address = address_;
    return Status::ok;
  }
  Status list_nodes(std::vector<uint32_t>* nodes, std::string*) override {
    nodes->assign(1, 0);
    return Status::ok;
  }

  std::vector<std::byte> address_;
};

// A variable by which a launcher tells a process how many it has started, and how to start them so
// that they find each other.
struct Sign {
  const char* variable;
  const char* remedy;
};
constexpr Sign kSigns[] = {
    {"SLURM_STEP_NUM_TASKS", "start the step by srun --mpi=pmix, or srun --mpi=pmi2"},
    {"PMI_SIZE", "start the job by Open MPI's mpirun, or MPICH's mpiexec.hydra"},
    {"OMPI_COMM_WORLD_SIZE", "hand the other variables of mpirun on to it, too, as PMIX_NAMESPACE"},
};

// Is this one of several processes, without a PMI? Each would be a job of its own. Programs that
// somebody starts from a shell at a terminal of srun's (--pty) run alone.
bool is_stray(std::string* why) {
  if (getenv("SLURM_PTY_PORT")) return false;
  for (const Sign& sign : kSigns) {
    const char* const text = getenv(sign.variable);
    uint32_t size = 0;
    if (!text || !parse_number(text, 2, UINT32_MAX, &size)) continue;
    *why = format_text(
        "%s=%u: this process is one of %u, but its launcher gives it no PMI to find the others by; "
        "%s; for programs that run alone, unset %s",
        sign.variable, size, size, sign.remedy, sign.variable);
    return true;
  }
  return false;
}

// Shared by run_with_deadline() and its thread.
struct Errand {
  std::function<void()> work;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

void* run_errand(void* context) {
  const std::unique_ptr<std::shared_ptr<Errand>> owned(
      static_cast<std::shared_ptr<Errand>*>(context));
  Errand& errand = **owned;
  errand.work();
  const std::lock_guard lock(errand.mutex);
  errand.done = true;
  errand.changed.notify_all();
  return nullptr;
}

}  // namespace

Status Boot::publish(std::span<const std::byte> address, std::string* why) {
  if (address.size() > kBootAddressMax) {
    *why = format_text("an address of %zu bytes cannot be published; %zu is the most",
                       address.size(), kBootAddressMax);
    return Status::invalid;
  }
  published_ = false;
  ++exchanges_;
  Status s = exchange(address, why);
  published_ = s == Status::ok;
  return s;
}

Status Boot::lookup(uint32_t rank, std::vector<std::byte>* address, std::string* why) {
  if (rank >= info_.size || !published_) {
    *why = published_ ? format_text("rank %u does not exist in a job of %u", rank, info_.size)
                      : "addresses can be looked up after publish()";
    return Status::invalid;
  }
  return fetch(rank, address, why);
}

Status Boot::process_map(const ProcessMap** map, std::string* why) {
  if (!published_) {
    *why = "the process map is known after publish()";
    return Status::invalid;
  }
  if (!map_) {
    std::vector<uint32_t> nodes(info_.size);
    Status s = list_nodes(&nodes, why);
    if (s != Status::ok) return s;
    const auto beyond =
        std::find_if(nodes.begin(), nodes.end(), [](auto n) { return n > kNodeMax; });
    if (beyond != nodes.end()) {
      *why = format_text("rank %td is on node %u; the largest number of a node is %u",
                         beyond - nodes.begin(), *beyond, kNodeMax);
      return Status::corrupt;
    }
    auto made = std::make_unique<ProcessMap>(std::move(nodes));
    if (made->node(info_.rank) != info_.node || made->local_rank(info_.rank) != info_.local_rank ||
        made->local_size(info_.node) != info_.local_size) {
      *why = format_text(
          "the launcher (%s) contradicts itself: rank %u is process %u of %u on node %u, or "
          "process "
          "%u of %u on node %u",
          info_.launcher, info_.rank, info_.local_rank, info_.local_size, info_.node,
          made->local_rank(info_.rank), made->local_size(made->node(info_.rank)),
          made->node(info_.rank));
      return Status::corrupt;
    }
    map_ = std::move(made);
  }
  *map = map_.get();
  return Status::ok;
}

std::unique_ptr<Boot> open_boot(std::string* why) {
  const bool pmi1 = getenv("PMI_FD") || getenv("PMI_PORT");
  if (getenv("PMIX_NAMESPACE")) {
    auto boot = open_pmix_boot(why);
    if (boot || !pmi1) return boot;
    TORII_INFO("%s; trying PMI-1", why->c_str());
  }
  if (pmi1) return open_pmi1_boot(why);
  if (getenv("TORII_RANK") || getenv("TORII_SIZE")) return open_environment_boot(why);
  if (is_stray(why)) return nullptr;
  return std::make_unique<SingletonBoot>();
}

bool launched() {
  for (const char* name : {"PMIX_NAMESPACE", "PMI_FD", "PMI_PORT", "TORII_RANK", "TORII_SIZE"})
    if (getenv(name)) return true;
  std::string why;
  return is_stray(&why);
}

uint64_t job_number(std::string_view name) {
  uint64_t hash = fnv1a(name);  // then a mix so that short names differ everywhere
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccd;
  hash ^= hash >> 33;
  return hash ? hash : 1;
}

Deadline::Deadline(int64_t ms) : end_ns_(monotonic_ns() + ms * 1000000) {}

int Deadline::left_ms() const {
  int64_t left = end_ns_ - monotonic_ns();
  if (left <= 0) return 0;
  return static_cast<int>(std::min<int64_t>((left + 999999) / 1000000, INT_MAX));
}

Status wait_for(int fd, short events, const Deadline& deadline) {
  for (;;) {
    pollfd entry = {fd, events, 0};
    int n = poll(&entry, 1, deadline.left_ms());
    if (n > 0) return Status::ok;
    if (n == 0) return Status::timed_out;
    if (errno != EINTR) return Status::io_error;
  }
}

Status send_all(int fd, const void* bytes, size_t count, const Deadline& deadline) {
  const char* from = static_cast<const char*>(bytes);
  while (count) {
    ssize_t n = send(fd, from, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      from += n;
      count -= static_cast<size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      Status s = wait_for(fd, POLLOUT, deadline);
      if (s != Status::ok) return s;
    } else if (n == 0 || errno != EINTR) {
      return Status::io_error;
    }
  }
  return Status::ok;
}

Status run_with_deadline(std::function<void()> work) {
  auto errand = std::make_shared<Errand>();
  errand->work = std::move(work);
  auto* const context = new std::shared_ptr<Errand>(errand);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, run_errand, context) != 0) {
    delete context;
    return Status::no_memory;
  }
  pthread_detach(thread);
  std::unique_lock lock(errand->mutex);
  const bool done = errand->changed.wait_for(
      lock, std::chrono::milliseconds(params().boot_deadline_ms), [&] { return errand->done; });
  return done ? Status::ok : Status::timed_out;
}

bool parse_number(std::string_view text, uint32_t min, uint32_t max, uint32_t* number) {
  uint32_t value = 0;
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return false;
  if (value < min || value > max) return false;
  *number = value;
  return true;
}

bool read_number(const char* variable, uint32_t min, uint32_t max, uint32_t* number,
                 std::string* why) {
  const char* text = getenv(variable);
  if (text && parse_number(text, min, max, number)) return true;
  *why = text ? format_text("%s=%s: expected an integer from %u to %u", variable, text, min, max)
              : format_text("%s is not set; expected an integer from %u to %u", variable, min, max);
  return false;
}

}  // namespace torii
