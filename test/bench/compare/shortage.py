# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""More ranks than cores: collectives, and what waiting costs others."""
from figure import Figure, Kind
from transports import OVERSUBSCRIBED, UNANNOUNCED

# A call that is slower than the time for its kind is made three times; two kinds, and the barriers
# of start and end: no run that takes longer has made more than eight calls at less than this.
LIMIT_SECONDS = 20
SLOW = f" (over {LIMIT_SECONDS * 1e6 / 8:.0f} us for a call)"


def collectives(ranks):
    return [
        Kind("allreduce", f"{ranks}: MPI_Allreduce", "microseconds", digits=2, bars=True),
        Kind("alltoall", f"{ranks}: MPI_Alltoall", "microseconds", digits=2, bars=True),
    ]


def exchanges(ranks):
    return [
        Kind("ring", f"{ranks}: MPI_Sendrecv in a ring", "microseconds", digits=1),
        Kind("neighbours", f"{ranks}: messages to and from both neighbours", "microseconds",
             digits=1),
        Kind("alltoall", f"{ranks}: MPI_Alltoall by bytes for a pair", "microseconds", digits=1),
    ]


def waits(ranks):
    return [
        Kind("cpu", f"{ranks}: processor time of a rank that has waited for a second",
             "percent of a core", digits=1, parameter="ranks", ratio=False, bars=True),
        Kind("speed", f"{ranks}: speed of a rank beside ranks that wait",
             "percent of its speed while they sleep", lower=False, digits=1,
             parameter="ranks", ratio=False, bars=True),
    ]


def figures(args):
    # Shorter only for a run whose figures do not matter.
    waiting = ("mpi_waiting.c", ["--seconds", str(min(2, args.ms))])

    def small(factor):
        return "mpi_collectives.c", ["--small", "1", "--ms", str(factor * args.ms)]

    # How fast many ranks on few cores are depends on how the kernel happens to place them, which
    # every run finds anew: many short ones, and what the floor of two cores is matters less. Two jobs start at different moments, so each of them
    # runs for longer than that. A group stops for the rest of each tenth of a second once its time
    # is spent: a run covers many of them.
    return [
        Figure("oversubscribed", "8 ranks on the cores, announced to the launcher",
               collectives("8 ranks"), [small(1)], rounds=25, seconds=70, layout=OVERSUBSCRIBED,
               ranks=8, run_seconds=LIMIT_SECONDS, steady=False, slow=SLOW),
        *(Figure(f"exchange-{ranks}", f"{ranks} ranks on the cores, announced to the launcher",
                 exchanges(f"{ranks} ranks"),
                 [("mpi_exchange.c", ["--ms", str(args.ms), "--max", str(min(args.max, 1 << 20))])],
                 rounds=7, seconds=60, layout=OVERSUBSCRIBED, ranks=ranks, run_seconds=60,
                 steady=False) for ranks in (4, 8)),
        *(Figure(f"network-{ranks}", f"{ranks} ranks on the cores, over networks",
                 collectives(f"{ranks} ranks, network") +
                 [Kind("barrier", f"{ranks} ranks, network: MPI_Barrier", "microseconds", digits=2,
                       bars=True),
                  Kind("bcast", f"{ranks} ranks, network: MPI_Bcast", "microseconds", digits=2,
                       bars=True)],
                 [("mpi_collectives.c", ["--ms", str(10 * args.ms)])], rounds=7, seconds=45,
                 layout=OVERSUBSCRIBED, ranks=ranks, run_seconds=LIMIT_SECONDS, steady=False,
                 network=True) for ranks in (4, 8)),
        Figure("oversubscribed-waiting", "8 ranks on the cores, of which most wait",
               waits("8 ranks"), [waiting], rounds=3, seconds=45, layout=OVERSUBSCRIBED, ranks=8,
               run_seconds=LIMIT_SECONDS),
        Figure("two-jobs", "two jobs of two ranks at once, unknown to each other",
               collectives("Two jobs of 2 ranks") + waits("Two jobs of 2 ranks"),
               [small(150), waiting], rounds=3, seconds=75, layout=UNANNOUNCED,
               copies=2, run_seconds=LIMIT_SECONDS, slow=SLOW),
        Figure("quota", "two ranks in a control group with one processor's time",
               collectives("2 ranks in one processor's time"), [small(300)], rounds=5,
               seconds=80, layout=UNANNOUNCED, share=1, run_seconds=LIMIT_SECONDS, slow=SLOW),
    ]
