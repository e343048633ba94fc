# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""More ranks than cores: collectives, and what waiting costs others."""
from figure import Figure, Kind
from transports import OVERSUBSCRIBED, UNANNOUNCED

# A call that is slower than the time for its kind is made three times; two kinds, and the barriers
# of start and end: no run that takes longer has made more than eight calls at less than this.
LIMIT_SECONDS = 20
SLOW = f" (over {LIMIT_SECONDS * 1e6 / 8:.0f} us for a call)"


def kinds(ranks):
    return [
        Kind("allreduce", f"{ranks}: MPI_Allreduce", "microseconds", digits=2, bars=True),
        Kind("alltoall", f"{ranks}: MPI_Alltoall", "microseconds", digits=2, bars=True),
        Kind("cpu", f"{ranks}: processor time of a rank that has waited for a second",
             "percent of a core", digits=1, parameter="ranks", ratio=False, bars=True),
        Kind("speed", f"{ranks}: speed of a rank beside ranks that wait",
             "percent of its speed while they sleep", lower=False, digits=1,
             parameter="ranks", ratio=False, bars=True),
    ]


def figures(args):
    # Shorter only for a run whose figures do not matter.
    waiting = ("mpi_waiting.c", ["--seconds", str(min(2, args.ms))])

    def programs(factor):
        return [("mpi_collectives.c", ["--small", "1", "--ms", str(factor * args.ms)]), waiting]

    # Two jobs start at different moments, so each of them runs for longer than that. A group stops
    # for the rest of each tenth of a second once its time is spent: a run covers many of them.
    return [
        Figure("oversubscribed", "8 ranks on the cores, announced to the launcher",
               kinds("8 ranks"), programs(10), rounds=3, seconds=90, layout=OVERSUBSCRIBED, ranks=8,
               run_seconds=LIMIT_SECONDS, slow=SLOW),
        Figure("two-jobs", "two jobs of two ranks at once, unknown to each other",
               kinds("Two jobs of 2 ranks"), programs(150), rounds=3, seconds=90, layout=UNANNOUNCED,
               copies=2, run_seconds=LIMIT_SECONDS, slow=SLOW),
        Figure("quota", "two ranks in a control group with one processor's time",
               kinds("2 ranks in one processor's time")[:2],
               [("mpi_collectives.c", ["--small", "1", "--ms", str(300 * args.ms)])], rounds=5,
               seconds=120, layout=UNANNOUNCED, share=1, run_seconds=LIMIT_SECONDS, slow=SLOW),
    ]
