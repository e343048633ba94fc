// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The RDMA devices of this node, as the kernel shows them.
#pragma once

#include <string>
#include <vector>

namespace torii::ucx {

std::vector<std::string> rdma_devices();  // their names, such as "mlx5_0"
bool is_mlx5(const std::string& device);

}  // namespace torii::ucx
