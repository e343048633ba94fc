# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""Collectives of ranks on one node, by size."""
from dataclasses import dataclass

import report
from figure import Figure, Kind
from transports import BOUND, OVERSUBSCRIBED

OPERATIONS = ("barrier", "bcast", "reduce", "allreduce", "allgather", "alltoall")
NAMES = ("collectives-2", "collectives-8")


@dataclass
class Collectives(Figure):
    """Below its tables: Torii over the best other, all sizes of an operation together."""

    def finish(self, outcome):
        rows = report.summarize(self.kinds, outcome)
        if len(outcome.names) < 2:
            return
        means = ", ".join(f"{name} {report.geometric_mean(rows, name):.2f}" for name in OPERATIONS)
        worst = max(rows, key=lambda row: row["ratio"])
        print(f"Torii / best other, geometric means: {means}; the worst size: {worst['kind']} "
              f"{report.size_text(worst['bytes'])} {worst['ratio']:.2f}")


def kinds(title):
    return [Kind(name, f"{title}: MPI_{name.capitalize()}", "microseconds", digits=2,
                 bars=name == "barrier")
            for name in OPERATIONS]


def figures(args):
    program = ("mpi_collective_sizes.c",
               ["--ms", str(args.ms), "--max", str(min(args.max, 1 << 20))])
    return [
        Collectives("collectives-2", "collectives of two ranks on one node", kinds("2 ranks"),
                    [program], rounds=15, seconds=120, layout=BOUND),
        Collectives("collectives-8", "collectives of 8 ranks on the cores, announced to the launcher",
                    kinds("8 ranks"), [program], rounds=15, seconds=180, layout=OVERSUBSCRIBED,
                    ranks=8, run_seconds=120, steady=False),
    ]
