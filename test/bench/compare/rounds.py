# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""Rounds: transports take turns, so that whatever else the machine does meets all of them.

A round is discarded when the hypervisor took a thousandth of its time away (steal in /proc/stat:
in a short round, any of it), or when the machine's floor, measured before and after it, is not what
it is in most rounds: in a virtual machine the processors move, and a cache line then takes several
times as long. Where few rounds would be left, none is discarded.
"""
import contextlib
import fcntl
import os
import statistics
import subprocess
import time
from dataclasses import dataclass, field

from transports import THREADED, RunFailed

FLOOR_TOLERANCE = 1.5
STEAL_TOLERANCE = 0.001
MANY_KEPT = 0.25
TOO_SLOW = 5


@dataclass
class Round:
    results: dict  # {transport's name: {(kind, parameter): value}}
    floors: list = field(default_factory=list)  # {what: value}, before and after
    stolen: bool = False
    seconds: dict = field(default_factory=dict)  # {transport's name: what its run took}


@dataclass
class Outcome:
    names: list  # transports with results in every round, Torii first
    kept: list
    stolen: int = 0
    moved: int = 0  # discarded because of the floor
    all_kept: bool = False

    def values(self, name, key):
        return [r.results[name][key] for r in self.kept]

    def keys(self):
        return list(self.kept[0].results[self.names[0]])

    def floor(self, what):
        """Per round, the mean of before and after; empty if there is no floor."""
        if not all(what in f for r in self.kept for f in r.floors):
            return []
        return [statistics.mean(f[what] for f in r.floors) for r in self.kept if r.floors]

    def line(self, what):
        text = f"{what}: {len(self.kept)} rounds"
        if self.all_kept and self.stolen + self.moved:
            return text + (f"; time was stolen in {self.stolen} of them and the floor moved in "
                           f"{self.moved}, too many to discard them: ratios of medians")
        return text + (f", {self.stolen} discarded because of stolen time, {self.moved} because "
                       "the floor moved")


def progress(text):
    print(f"-- {text}", flush=True)


def processor_ticks():
    """(stolen ones, all) of all processors since the machine started."""
    with open("/proc/stat") as f:
        fields = [int(field) for field in f.readline().split()[1:9]]
    return (fields[7] if len(fields) > 7 else 0), sum(fields)


class Floor:
    """The floor of the two cores that two bound ranks get."""

    def __init__(self, source, folder):
        cores = sorted(os.sched_getaffinity(0))
        self.command = None
        if len(cores) < 2:
            return
        program = os.path.join(folder, "floor")
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-o", program, source], check=True)
        self.command = [program, str(cores[0]), str(cores[1])]

    def measure(self, also):
        """{what: value}, with those of the list `also`; empty on a machine with one core."""
        if not self.command:
            return {}
        text = subprocess.run([*self.command, *also], stdout=subprocess.PIPE, check=True, timeout=60).stdout
        return {what: float(value) for what, value in
                (line.split() for line in text.decode().splitlines())}


class Lock:
    """A lock file, if one is given: other measurements on this machine wait for it. It is kept
    for some rounds, then given up between two of them."""
    KEEP_SECONDS = 60

    def __init__(self, path):
        self.path, self.file, self.since = path, None, 0
        self.waited = 0  # seconds, all together

    @contextlib.contextmanager
    def held(self):
        begin = time.monotonic()
        if self.path and not self.file:
            self.file = open(self.path, "a")
            fcntl.flock(self.file, fcntl.LOCK_EX)
            self.since = time.monotonic()
            self.waited += self.since - begin
        try:
            yield
        finally:
            if time.monotonic() - self.since > self.KEEP_SECONDS:
                self.release()

    def release(self):
        if self.file:
            self.file.close()
            self.file = None


def turns(transports, number):
    """The order of a round: each transport is first, second and last equally often."""
    shift = number % len(transports)
    return transports[shift:] + transports[:shift]


def sort_out(rounds, wanted, steady=True):
    """(kept, stolen, moved, all_kept): which rounds are good."""
    honest = [r for r in rounds if not r.stolen]
    lines = [f["line"] for r in honest for f in r.floors]
    middle = statistics.median(lines) if lines else 0

    def stayed(r):
        return not steady or all(middle / FLOOR_TOLERANCE <= f["line"] <= middle * FLOOR_TOLERANCE
                                 for f in r.floors)

    kept = [r for r in honest if stayed(r)]
    stolen, moved = len(rounds) - len(honest), len(honest) - len(kept)
    # A host that is never quiet: many rounds that were all disturbed say more than a few good ones.
    if len(kept) < min(wanted, 3) or len(kept) < MANY_KEPT * len(rounds):
        return rounds, stolen, moved, True
    return kept, stolen, moved, False


def run_rounds(session, what, transports, wanted, seconds, one_run, floors=(), steady=True):
    """Runs until there are `wanted` good rounds, twice as many in all, or the seconds are over.
    A transport that fails is left out of the figure; a failure of Torii is raised. The time of one
    that is left out does not count. Not steady: the floor may move."""
    present, rounds, left_out = list(transports), [], 0
    begin = shown = time.monotonic()
    waited = session.lock.waited
    progress(f"{what}: {', '.join(t.name for t in present)}; {wanted} rounds")
    while len(rounds) < 2 * wanted:
        kept, _, _, all_kept = sort_out(rounds, wanted, steady)
        if len(kept) >= wanted and not all_kept:
            break
        spent = time.monotonic() - begin - (session.lock.waited - waited) - left_out
        if rounds and spent + spent / len(rounds) > seconds:
            break
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            progress(f"{what}: {len(rounds)} rounds, {spent:.0f} s")
        with session.lock.held():
            rounds.append(one_round(session, what, present, len(rounds), one_run, floors))
        took = rounds[-1].seconds
        leave_out_slow(what, present, took, seconds / wanted)
        left_out += sum(took[name] for name in set(took) - {t.name for t in present})
    kept, stolen, moved, all_kept = sort_out(rounds, wanted, steady)
    return Outcome([t.name for t in present], kept, stolen, moved, all_kept)


def leave_out_slow(what, present, took, fair):
    """A transport that spins where processors are shared would take all the time of the figure."""
    first = present[0]
    for transport in present[1:]:
        if len(present) > 2 and took[transport.name] > max(fair, TOO_SLOW * took[first.name]):
            present.remove(transport)
            print(f"{transport.name} is left out of {what}: its run took "
                  f"{took[transport.name]:.0f} s, that of {first.name} {took[first.name]:.1f} s",
                  flush=True)


def one_round(session, what, present, number, one_run, also):
    (stolen, total), results, seconds = processor_ticks(), {}, {}
    floors = [session.floor.measure(also)]
    for transport in turns(present, number):
        begin = time.monotonic()
        try:
            results[transport.name] = one_run(transport)
        except RunFailed as why:
            if transport.name in ("Torii", THREADED):
                raise
            present.remove(transport)
            print(f"{transport.name} is left out of {what}: {why}", flush=True)
        seconds[transport.name] = time.monotonic() - begin
    floors.append(session.floor.measure(also))
    now_stolen, now_total = processor_ticks()
    return Round(results, [f for f in floors if f],
                 now_stolen - stolen > STEAL_TOLERANCE * (now_total - total), seconds)
