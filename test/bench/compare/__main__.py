# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""The same programs over Torii and over other transports, side by side.

contrib/compare runs this. Tables go to standard output, tables as CSV and plots to the results
folder. Exit status 0 if every run over Torii succeeded and all transports agree on the physics;
speed does not decide it.
"""
import argparse
import math
import os
import sys
import tempfile
import time

import applications
import collectives
import instructions
import one_sided
import shortage
import two_ranks
from rounds import Floor, Lock
from transports import (MPICC, RunFailed, first_match, make_network_transports, make_transports,
                        mpich_transports, one_sided_transports, with_thread)

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.dirname(HERE)
TOP = os.path.dirname(os.path.dirname(SOURCES))
QUICK = ["pingpong", "instructions", "lammps"]
QUICK_MPICH = ["pingpong", "windows", "threads", "onesided", "onesided-allocate"]


class Session:
    """What all figures of one run share."""

    def __init__(self, args, transports, networks, programs):
        self.results = args.results
        self.sources = SOURCES
        self.programs = programs
        self.transports = transports
        self.threaded = with_thread(transports[0])
        # MPICH has no components to choose from.
        self.one_sided = None if args.mpich else one_sided_transports(transports)
        self.networks = networks
        self.lock = Lock(args.lock)
        self.floor = Floor(os.path.join(SOURCES, "floor.c"), programs)
        self._rounds, self._lammps_rounds = args.rounds, args.lammps_rounds

    def rounds(self, usual, seconds):
        """(how many, for how long): as many as were asked for take what they take."""
        return (self._rounds, math.inf) if self._rounds else (usual, seconds)

    def lammps_rounds(self, usual, seconds):
        return (self._lammps_rounds, math.inf) if self._lammps_rounds else (usual, seconds)


def cpu_model():
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "?"


def machine_lines(args, cores):
    print(f"machine: {cpu_model()}, {cores} cores usable, Linux {os.uname().release}")
    if args.mpich:
        print(f"MPICH: {args.mpich}")
    else:
        mpich = first_match(["mpichversion"], r"Version:\s*(\S+)")
        print(f"Open MPI: {first_match([MPICC, '--showme:version'], '(.*)') or '?'}; "
              f"MPICH: {mpich or 'none'}")
    load = os.getloadavg()[0]
    if load > 0.7:
        print(f"note: the machine is busy (load {load:.1f}); the figures will show it")
    if cores < 2:
        print("note: two ranks share one core here; this compares waiting, not transports")


def arguments():
    parser = argparse.ArgumentParser(prog="contrib/compare", description=__doc__.split("\n\n")[0])
    parser.add_argument("--all", action="store_true", help="all figures, about 17 minutes")
    parser.add_argument("--only", metavar="NAME[,NAME]", help="these figures")
    parser.add_argument("--collectives", action="store_true",
                        help="collectives of 2 and of 8 ranks on one node, by size")
    parser.add_argument("--list", action="store_true", help="print the names of the figures")
    parser.add_argument("--prefix", default=os.path.join(TOP, "install"))
    parser.add_argument("--mpich", metavar="PREFIX[,[NAME=]PREFIX...]",
                        help="over MPICH instead of Open MPI: the one installed with the netmod, and "
                        "others to compare it with")
    parser.add_argument("--results", default=os.path.join(TOP, "results"))
    parser.add_argument("--rounds", type=int, help="of every figure but LAMMPS, however long they take "
                        "(by figure)")
    parser.add_argument("--lammps-rounds", type=int, help="of LAMMPS, likewise (by figure)")
    parser.add_argument("--max", type=int, default=4 << 20, help="largest message (%(default)s)")
    parser.add_argument("--ms", type=float, default=6, help="time for each size (%(default)s)")
    parser.add_argument("--lock", metavar="FILE",
                        help="hold a lock on FILE for a minute at a time: other measurements then wait")
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def chosen(args):
    known = [figure for family in (two_ranks, one_sided, collectives, shortage, applications,
                                                instructions)
             for figure in family.figures(args)]
    names = [figure.name for figure in known]
    if args.list:
        print("\n".join(names))
        sys.exit(0)
    quick = QUICK_MPICH if args.mpich else QUICK
    if args.collectives:
        quick = collectives.NAMES
    wanted = args.only.split(",") if args.only else names if args.all else quick
    for name in wanted:
        if name not in names:
            sys.exit(f"compare: no figure {name}; there are {', '.join(names)}")
    return [figure for figure in known if figure.name in wanted]


def main():
    args = arguments()
    figures = chosen(args)
    if args.check_options:
        return 0
    args.results = os.path.abspath(args.results)
    os.makedirs(args.results, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    machine_lines(args, cores)
    begin, failures = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="torii-compare-") as folder:
        programs = os.path.join(folder, "programs")
        os.mkdir(programs)
        transports = (mpich_transports(args.mpich, folder, cores) if args.mpich
                      else make_transports(args.prefix, folder, cores))
        networks = None if args.mpich else make_network_transports(args.prefix, folder, cores)
        session = Session(args, transports, networks, programs)
        for figure in figures:
            try:
                figure.run(session)
            except RunFailed as why:
                failures.append(figure.name)
                print(f"FAILED {figure.name}: {why}", flush=True)
    session.lock.release()
    seconds = time.monotonic() - begin - session.lock.waited
    print(f"\n{seconds:.0f} s; tables (csv) and plots (svg, png) in "
          f"{os.path.relpath(args.results)}")
    if failures:
        print(f"compare: failed: {', '.join(failures)}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
