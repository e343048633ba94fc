# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""Two ranks, each on its own core: messages, matching, collectives, overlap."""
from figure import Figure, Kind

TWO_RANKS = "two ranks on one node, each on its own core"


def figures(args):
    ms, size = str(args.ms), ["--max", str(args.max), "--ms", str(args.ms)]
    return [
        Figure("pingpong", TWO_RANKS,
               [Kind("latency", "Ping-pong: one-way time", "microseconds"),
                Kind("bandwidth", "Stream: bandwidth", "10^6 bytes/s", lower=False, digits=1)],
               [("mpi_pingpong.c", size)], rounds=20, seconds=110, plot="compare",
               multiples=[("latency", 64)]),
        Figure("small", TWO_RANKS + ", in many rounds",
               [Kind("latency", "Small messages, ping-pong: one-way time", "microseconds")],
               [("mpi_pingpong.c", ["--max", "64", "--ms", ms])], rounds=40, seconds=45,
               multiples=[("latency", 64)]),
        Figure("memory", TWO_RANKS,
               [Kind("malloc", "Memory from malloc: one-way time", "microseconds"),
                Kind("alloc_mem", "Memory from MPI_Alloc_mem: one-way time", "microseconds"),
                Kind("alloc_source", "The same at the sender only", "microseconds"),
                Kind("alloc_target", "The same at the receiver only", "microseconds"),
                Kind("alloc_ratio", "MPI_Alloc_mem's time over malloc's", "ratio", ratio=False)],
               [("mpi_memory.c", size)], rounds=11, seconds=80),
        Figure("windows", TWO_RANKS,
               [Kind("bidirectional", "Both directions at once: bandwidth", "10^6 bytes/s",
                     lower=False, digits=1, limit="both"),
                Kind("rate", "Message rate, windows of 64", "10^6 messages/s", lower=False)],
               [("mpi_windows.c", size)], rounds=15, seconds=80),
        Figure("threads", TWO_RANKS + ", with MPI_THREAD_MULTIPLE",
               [Kind("thread_rate", "Rate of messages of 1 B, all threads together",
                     "10^6 messages/s", lower=False, parameter="threads", bars=True)],
               [("mpi_threads.c", ["--ms", str(10 * args.ms)])], rounds=11, seconds=40),
        Figure("queues", TWO_RANKS + ": 8-byte messages beside long queues",
               [Kind("posted", "Other receives posted earlier: one-way time of 8 B",
                     "microseconds", parameter="entries"),
                Kind("unexpected", "Other messages arrived earlier: one-way time of 8 B",
                     "microseconds", parameter="entries")],
               [("mpi_queues.c", ["--ms", ms])], rounds=11, seconds=80),
        Figure("collectives", TWO_RANKS,
               [Kind("allreduce", "MPI_Allreduce", "microseconds", bars=True),
                Kind("bcast", "MPI_Bcast", "microseconds", bars=True),
                Kind("alltoall", "MPI_Alltoall", "microseconds", bars=True)],
               [("mpi_collectives.c", ["--ms", ms])], rounds=11, seconds=50),
        Figure("overlap", TWO_RANKS,
               [Kind("hidden", "Communication hidden by computation", "percent", lower=False,
                     digits=1, ratio=False, bars=True),
                Kind("taken", "MPI_Ssend to a rank that computes for 10 ms", "microseconds",
                     digits=1, ratio=False, bars=True)],
               [("mpi_overlap.c", ["--ms", str(20 * args.ms)])], rounds=7, seconds=50,
               with_thread=True),
    ]
