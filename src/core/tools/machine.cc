// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/machine.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/base/hardware.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/ni/ni_lock.h"

namespace torii {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Lets a process be read by any other, says so, and waits to be killed.
pid_t start_target() {
  int fds[2];
  if (pipe(fds)) return -1;
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (write(fds[1], "", 1) == 1) pause();
    _exit(0);
  }
  close(fds[1]);
  char ready;
  if (pid > 0 && read(fds[0], &ready, 1) != 1) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = -1;
  }
  close(fds[0]);
  return pid;
}

// The error of a sibling's attempt to read `address` in `target`; 0 if it saw `expected`.
int try_reading(pid_t target, const uint64_t* address, uint64_t expected) {
  pid_t reader = fork();
  if (reader < 0) return errno;
  if (reader == 0) {
    uint64_t seen = ~expected;
    iovec local = {&seen, sizeof seen};
    iovec remote = {const_cast<uint64_t*>(address), sizeof *address};
    ssize_t n = process_vm_readv(target, &local, 1, &remote, 1, 0);
    _exit(n < 0 ? std::clamp(errno, 1, 254) : n == sizeof seen && seen == expected ? 0 : EIO);
  }
  int status = 0;
  if (waitpid(reader, &status, 0) != reader) return errno;
  return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

// The lowest quota, in cores, on the way from a control group up to the root; 0 if there is none.
double quota_cores() {
  double least = 0;
  auto take = [&least](double quota, double period) {
    if (quota <= 0 || period <= 0) return;
    least = least > 0 ? std::min(least, quota / period) : quota / period;
  };
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (!controllers.empty() && controllers.find("cpu") == std::string::npos) continue;
    for (;; group.erase(group.rfind('/'))) {
      double quota = 0, period = 0;
      if (controllers.empty()) {
        std::istringstream(first_line("/sys/fs/cgroup" + group + "/cpu.max")) >> quota >> period;
      } else {
        const std::string folder = "/sys/fs/cgroup/" + controllers + group;
        std::istringstream(first_line(folder + "/cpu.cfs_quota_us")) >> quota;
        std::istringstream(first_line(folder + "/cpu.cfs_period_us")) >> period;
      }
      take(quota, period);
      if (group.empty() || group.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

std::string size_with_unit(double bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return format_text(bytes < 10 && unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

}  // namespace

std::string attach_fact() {
  static volatile uint64_t word = 0x746f726969;
  pid_t target = start_target();
  if (target < 0)
    return format_text("unknown: cannot start a process to try it: %s", strerror(errno));
  int error = try_reading(target, const_cast<const uint64_t*>(&word), word);
  kill(target, SIGKILL);
  waitpid(target, nullptr, 0);
  if (error == 0) return "allowed";
  std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  std::string fact = format_text("refused: %s", strerror(error));
  if (scope == "2" || scope == "3") {
    return fact + "; set /proc/sys/kernel/yama/ptrace_scope, now " + scope + ", to 0 or 1";
  }
  return fact + "; in a container, allow process_vm_readv in its seccomp profile";
}

std::string cores_fact() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const int online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  // The mask of a machine with more cores than a cpu_set_t has cannot be read into one.
  const int affinity = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : online;
  const double quota = quota_cores();
  std::string fact = format_text("%d of %d", affinity, online);
  if (quota <= 0) return fact + " by affinity, no quota";
  return fact + format_text(" by affinity, quota %.4g", quota);
}

std::string progress_thread_fact() {
  if (!params().progress_thread)
    return "none, on a network a standby; TORII_PROGRESS_THREAD=1 starts one";
  const bool biased = NiLock::kind_for(NiLock::Users::one_thread, true) == NiLock::Kind::biased;
  return biased ? "runs; calls from one thread take no lock for it"
                : "runs; every call takes a lock for it (this kernel has no membarrier)";
}

std::string shared_memory_fact() {
  struct statvfs disk;
  if (statvfs("/dev/shm", &disk)) {
    return format_text("missing: %s; mount a tmpfs there", strerror(errno));
  }
  const double block = static_cast<double>(disk.f_frsize);
  return size_with_unit(block * static_cast<double>(disk.f_blocks)) + ", " +
         size_with_unit(block * static_cast<double>(disk.f_bavail)) + " free";
}

std::string rdma_fact() {
  std::string fact;
  for (const std::string& name : rdma_devices()) {
    fact += (fact.empty() ? "" : ", ") + name;
    // The state is "4: ACTIVE"; the link layer of RoCE is "Ethernet".
    const std::string port = "/sys/class/infiniband/" + name + "/ports/1/";
    const std::string state = first_line(port + "state");
    if (!state.empty())
      fact +=
          " (" + first_line(port + "link_layer") + ", " + state.substr(state.find(' ') + 1) + ")";
  }
  return fact.empty() ? "none" : fact;
}

std::string locked_memory_fact() {
  constexpr rlim_t kEnough = 64 << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit)) return format_text("unknown: %s", strerror(errno));
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  const std::string size = size_with_unit(static_cast<double>(limit.rlim_cur));
  if (limit.rlim_cur >= kEnough || rdma_devices().empty()) return size;
  return size +
         "; RDMA devices reach no other memory, so ucx may not open, and long messages are copied: "
         "raise memlock in /etc/security/limits.conf, in containers --ulimit memlock=-1";
}

std::string pid_namespace_fact() {
  char link[64] = "";
  if (readlink("/proc/self/ns/pid", link, sizeof link - 1) < 0) {
    return format_text("unknown: %s", strerror(errno));
  }
  // The kernel gives the first namespace this number.
  if (!strcmp(link, "pid:[4026531836]")) return "the machine's own";
  return std::string("a container's, ") + link +
         "; processes of other PID namespaces are reached by network drivers only";
}

}  // namespace torii
