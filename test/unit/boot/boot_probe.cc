// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Started by a launcher as every rank of a job: publishes an address twice, looks up and checks
// those of all, and prints one line. Options: --bytes N (length of the address), --absent RANK
// (that rank leaves before it publishes), --stuck RANK (that rank never publishes), --in-mpi
// LIBRARY (does all that between MPI_Init and MPI_Finalize). Exit status: 0 all well, 3 Torii
// reported an error (printed), 4 wrong data, 2 wrong options.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/boot/boot.h"

using namespace torii;

namespace {

struct Options {
  size_t bytes = 40;
  long absent = -1;
  long stuck = -1;
  const char* mpi = nullptr;
};

std::vector<std::byte> address_of(uint32_t rank, size_t bytes) {
  std::vector<std::byte> address(bytes + rank);
  for (size_t i = 0; i < address.size(); ++i) address[i] = static_cast<std::byte>(rank * 37 + i);
  return address;
}

int report(const std::string& why) {
  fprintf(stdout, "error: %s\n", why.c_str());
  fflush(stdout);  // the launcher may kill this process at any moment from now on
  return 3;
}

int wrong(const char* what, uint32_t rank) {
  fprintf(stdout, "wrong: %s of rank %u\n", what, rank);
  return 4;
}

int probe(const Options& options) {
  std::string why;
  auto boot = open_boot(&why);
  if (!boot) return report(why);
  const BootInfo& me = boot->info();
  if (options.absent == static_cast<long>(me.rank)) _Exit(0);
  if (options.stuck == static_cast<long>(me.rank)) pause();
  for (size_t bytes : {options.bytes, options.bytes / 2}) {
    if (boot->publish(address_of(me.rank, bytes), &why) != Status::ok) return report(why);
    for (uint32_t r = me.size; r-- > 0;) {
      std::vector<std::byte> address;
      if (boot->lookup(r, &address, &why) != Status::ok) return report(why);
      if (address != address_of(r, bytes)) return wrong("address", r);
    }
  }
  const ProcessMap* map = nullptr;
  if (boot->process_map(&map, &why) != Status::ok) return report(why);
  for (uint32_t r = 0; r < me.size; ++r) {
    uint32_t back = ~0u;
    if (!map->rank_at(map->node(r), map->local_rank(r), &back) || back != r)
      return wrong("place", r);
  }
  if (boot->barrier(&why) != Status::ok) return report(why);
  fprintf(stdout, "ok: rank %u of %u, node %u, local %u of %u, %s, job %016lx\n", me.rank, me.size,
          me.node, me.local_rank, me.local_size, me.launcher, static_cast<unsigned long>(me.job));
  fflush(stdout);
  return boot->barrier(&why) == Status::ok ? 0 : report(why);
}

int probe_in_mpi(const Options& options) {
  void* library = dlopen(options.mpi, RTLD_NOW | RTLD_GLOBAL);
  if (!library) return report(dlerror());
  auto init = reinterpret_cast<int (*)(int*, char***)>(dlsym(library, "MPI_Init"));
  auto finalize = reinterpret_cast<int (*)()>(dlsym(library, "MPI_Finalize"));
  if (!init || !finalize || init(nullptr, nullptr)) return report("MPI_Init failed");
  int status = probe(options);
  if (status == 0) status = probe(options);  // a second opening in the same process
  finalize();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return 2;
    if (!strcmp(argv[i], "--bytes")) {
      options.bytes = strtoul(argv[i + 1], nullptr, 10);
    } else if (!strcmp(argv[i], "--absent")) {
      options.absent = strtol(argv[i + 1], nullptr, 10);
    } else if (!strcmp(argv[i], "--stuck")) {
      options.stuck = strtol(argv[i + 1], nullptr, 10);
    } else if (!strcmp(argv[i], "--in-mpi")) {
      options.mpi = argv[i + 1];
    } else {
      return 2;
    }
  }
  return options.mpi ? probe_in_mpi(options) : probe(options);
}
