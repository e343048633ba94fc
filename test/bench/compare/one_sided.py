# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""One-sided communication of two ranks, by where the window's memory comes from."""
from figure import Figure, Kind

# By the number that mpi_onesided.c knows it by.
MEMORIES = (("allocate", "MPI_Win_allocate"), ("alloc_mem", "MPI_Alloc_mem"), ("malloc", "malloc"))


def asked(name):
    """What an operation that somebody else carries out takes at least, in each round: the time of the
    same operation where the memory is mapped, and a cache line there and back."""
    def bound(outcome):
        mapped = outcome.values("Torii", (f"alloc_mem_{name}", 8))
        return [t + 2 * line / 1e3 for t, line in zip(mapped, outcome.floor("line"))]
    return {"bound": bound, "bound_text": "the same in memory that is mapped, where all is osc/rdma's own time "
                                          "but one instruction, and a cache line there and back"}


def kinds(memory, title):
    ask = asked if memory == "malloc" else lambda name: {}
    return [
        Kind(f"{memory}_fetch_and_op", f"{title}: MPI_Fetch_and_op", "microseconds", bars=True,
             **ask("fetch_and_op")),
        Kind(f"{memory}_compare_and_swap", f"{title}: MPI_Compare_and_swap", "microseconds",
             bars=True, **ask("compare_and_swap")),
        Kind(f"{memory}_put", f"{title}: MPI_Put and flush", "microseconds"),
        Kind(f"{memory}_get", f"{title}: MPI_Get and flush", "microseconds"),
        Kind(f"{memory}_put_bandwidth", f"{title}: bandwidth of MPI_Put", "10^6 bytes/s",
             lower=False, digits=1),
        Kind(f"{memory}_get_bandwidth", f"{title}: bandwidth of MPI_Get", "10^6 bytes/s",
             lower=False, digits=1),
    ]


def figure(args, name, numbers, components, seconds):
    size = ["--max", str(args.max), "--ms", str(args.ms / 2)]
    return Figure(name, "one-sided communication of two ranks on one node",
                  [kind for number in numbers for kind in kinds(*MEMORIES[number])],
                  [("mpi_onesided.c", [*size, "--memory", str(number)]) for number in numbers],
                  rounds=9, seconds=seconds, components=components)


def figures(args):
    return [
        figure(args, "onesided", (1, 2), ("Torii", "osc/rdma", "osc/ucx"), 120),
        # Open MPI's own osc/rdma breaks down here: compare and swap over btl/vader.
        figure(args, "onesided-allocate", (0,), ("Torii", "osc/sm", "osc/ucx"), 60),
    ]
