// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/processors.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/base/small_file.h"

namespace torii {

namespace {

constexpr double kLeast = 0.01;
constexpr size_t kFileMost = 64 << 10;

// The content of a small file; empty if it cannot be read.
std::string read_file(const std::string& path) {
  std::string text;
  return read_beginning(path, kFileMost, &text) ? text : std::string();
}

// Processors in a list like "0-3,8"; 0 if it is none.
double count_list(const std::string& text) {
  double count = 0;
  const char* at = text.c_str();
  while (*at >= '0' && *at <= '9') {
    char* end;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    if (last < first) return 0;
    count += double(last - first + 1);
    at = *end == ',' ? end + 1 : end;
  }
  return count;
}

// Processors that "QUOTA PERIOD" stands for; 0 if there is no limit.
double read_quota(const std::string& quota, const std::string& period) {
  const double q = std::atof(quota.c_str());
  const double p = std::atof(period.c_str());
  return q > 0 && p > 0 ? q / p : 0;
}

void lower(double* value, double limit) {
  if (limit > 0) *value = std::min(*value, limit);
}

// The group's own directory and those above it: each may set a limit.
void apply_group(const std::string& root, std::string path, bool unified, double* value) {
  for (;;) {
    const std::string folder = root + (path == "/" ? "" : path);
    if (unified) {
      const std::string max = read_file(folder + "/cpu.max");
      const size_t blank = max.find(' ');
      if (blank != std::string::npos) lower(value, read_quota(max, max.substr(blank + 1)));
      lower(value, count_list(read_file(folder + "/cpuset.cpus.effective")));
    } else {
      lower(value, read_quota(read_file(folder + "/cpu.cfs_quota_us"),
                              read_file(folder + "/cpu.cfs_period_us")));
      lower(value, count_list(read_file(folder + "/cpuset.effective_cpus")));
    }
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos || path.size() <= 1) return;
    path.resize(std::max<size_t>(slash, 1));
  }
}

bool lists(std::string_view controllers, std::string_view name) {
  for (size_t at = 0; at <= controllers.size();) {
    const size_t comma = std::min(controllers.find(',', at), controllers.size());
    if (controllers.substr(at, comma - at) == name) return true;
    at = comma + 1;
  }
  return false;
}

}  // namespace

// A line is "NUMBER:CONTROLLERS:PATH"; the unified hierarchy has no controllers. Inside a container
// the path may be one that only the host sees: then the mounted root is the container's own group.
double usable_processors(const std::string& cgroups, const std::string& mount, double online) {
  double value = online;
  for (size_t at = 0; at < cgroups.size();) {
    const size_t end = std::min(cgroups.find('\n', at), cgroups.size());
    const std::string line = cgroups.substr(at, end - at);
    at = end + 1;
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (path.empty() || path[0] != '/') continue;
    if (controllers.empty()) {
      apply_group(mount, path, true, &value);
      apply_group(mount + "/unified", path, true, &value);
    } else if (lists(controllers, "cpu") || lists(controllers, "cpuset")) {
      // Mounted by all its controllers or by one of them, in whatever order.
      for (const std::string& name : {controllers, std::string("cpu"), std::string("cpuset")})
        if (name == controllers || lists(controllers, name))
          apply_group(mount + "/" + name, path, false, &value);
    }
  }
  return std::max(value, kLeast);
}

double usable_processors() {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return usable_processors(read_file("/proc/self/cgroup"), "/sys/fs/cgroup",
                           online > 0 ? double(online) : 1.0);
}

bool yield_reaches(uint32_t pid) {
  const pid_t other = getsid(pid_t(pid));
  if (other < 0 || other == getsid(0)) return true;
  return read_file("/proc/sys/kernel/sched_autogroup_enabled").substr(0, 1) != "1";
}

}  // namespace torii
