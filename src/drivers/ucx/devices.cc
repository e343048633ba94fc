// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/ucx/devices.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "drivers/ucx/ucx.h"

namespace torii {

bool ucx_has_hardware() { return !ucx::rdma_devices().empty(); }

namespace ucx {
namespace {

constexpr char kDevices[] = "/sys/class/infiniband";

}  // namespace

std::vector<std::string> rdma_devices() {
  std::vector<std::string> names;
  DIR* const folder = opendir(kDevices);
  if (!folder) return names;
  while (const dirent* const entry = readdir(folder))
    if (entry->d_name[0] != '.') names.push_back(entry->d_name);
  closedir(folder);
  std::ranges::sort(names);
  return names;
}

bool is_mlx5(const std::string& device) {
  char driver[512];  // "../../../../bus/pci/drivers/mlx5_core"
  const std::string link = std::string(kDevices) + "/" + device + "/device/driver";
  const ssize_t n = readlink(link.c_str(), driver, sizeof(driver));
  return n > 0 && std::string_view(driver, static_cast<size_t>(n)).ends_with("mlx5_core");
}

}  // namespace ucx
}  // namespace torii
