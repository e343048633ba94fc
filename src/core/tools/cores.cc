// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/cores.h"

#include <sched.h>

#include <algorithm>

#include "config.h"
#if HAVE_HWLOC
#include <hwloc.h>
#endif

namespace torii {
namespace {

// Nothing if the machine has more processors than a cpu_set_t.
std::vector<int> by_number() {
  std::vector<int> numbers;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return numbers;
  for (int number = 0; number < CPU_SETSIZE; ++number)
    if (CPU_ISSET(size_t(number), &allowed)) numbers.push_back(number);
  return numbers;
}

#if HAVE_HWLOC

std::vector<int> by_distance(hwloc_topology_t topology) {
  std::vector<int> first, others;
  const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  for (int i = 0; i < cores; ++i) {
    const hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, unsigned(i));
    std::vector<int>* to = &first;
    unsigned number;
    hwloc_bitmap_foreach_begin(number, core->cpuset) {
      to->push_back(int(number));
      to = &others;
    }
    hwloc_bitmap_foreach_end();
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

std::vector<int> ordered_by_distance() {
  std::vector<int> numbers;
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return numbers;
  hwloc_bitmap_t mine = hwloc_bitmap_alloc();
  if (hwloc_topology_load(topology) == 0 && mine &&
      hwloc_get_cpubind(topology, mine, HWLOC_CPUBIND_PROCESS) == 0 &&
      hwloc_topology_restrict(topology, mine, 0) == 0)
    numbers = by_distance(topology);
  hwloc_bitmap_free(mine);
  hwloc_topology_destroy(topology);
  return numbers;
}

#endif

}  // namespace

std::vector<int> usable_cores() {
  const std::vector<int> numbers = by_number();
#if HAVE_HWLOC
  std::vector<int> ordered = ordered_by_distance();
  if (std::is_permutation(ordered.begin(), ordered.end(), numbers.begin(), numbers.end()))
    return ordered;
#endif
  return numbers;
}

}  // namespace torii
