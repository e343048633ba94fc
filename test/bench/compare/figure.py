# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""A figure: which program is run how, what its lines mean, and what becomes of them."""
import os
from dataclasses import dataclass, field

import control_group
import plots
import report
from rounds import run_rounds
from transports import BOUND, RunFailed, RunTimeout


@dataclass
class Kind:
    """One sort of lines that a program prints: "NAME PARAMETER VALUE"."""
    name: str
    title: str
    unit: str
    lower: bool = True  # less is better
    digits: int = 3
    parameter: str = "bytes"
    ratio: bool = True
    bars: bool = False
    limit: str = ""  # the floor's figures "LIMIT-PARAMETER": what the machine allows at most
    bound: object = None  # instead: a function of the outcome, what it allows in each round
    bound_text: str = ""


@dataclass
class Figure:
    name: str
    title: str
    kinds: list
    programs: list  # [(source, arguments)], one after the other in each turn of a transport
    rounds: int
    seconds: float  # for all rounds together
    layout: str = BOUND
    ranks: int = 2
    copies: int = 1
    share: float = 0  # of the processors, for all ranks together; 0: all
    run_seconds: float = 60
    steady: bool = True  # a round counts only if the floor stays
    slow: str = ""  # what a run that does not end in time says about the transport
    plot: str = ""  # the plot's name, if not the figure's
    with_thread: bool = False  # also over Torii with its progress thread
    network: bool = False  # over networks, between processes of this machine
    components: tuple = ()  # of one-sided communication, instead of the transports of messages
    # [(kind, largest)]: shown as multiples of the floor
    multiples: list = field(default_factory=list)

    def run(self, session):
        if not self.share:
            return self._run(session, None)
        try:
            with control_group.limited(self.share) as group:
                return self._run(session, group)
        except control_group.NoGroup as why:
            print(f"{self.name} is left out: {why}", flush=True)

    def _run(self, session, group):
        sources = [os.path.join(session.sources, source) for source, _ in self.programs]

        def one_run(transport):
            results = {}
            for source, (_, arguments) in zip(sources, self.programs):
                program = transport.compile(source, session.programs)
                results.update(self._one_program(session, transport, [program, *arguments], group))
            return results

        transports = session.transports
        if self.network:
            if not session.networks:
                print(f"{self.name} is left out: it compares components of Open MPI", flush=True)
                return
            transports = session.networks
        if self.components and session.one_sided:
            transports = [one for one in session.one_sided if one.name in self.components]
        if self.with_thread:
            transports = [transports[0], session.threaded, *transports[1:]]
        outcome = run_rounds(session, self.name, transports,
                             *session.rounds(self.rounds, self.seconds), one_run,
                             sorted({kind.limit for kind in self.kinds if kind.limit}), self.steady)
        show(session, self.name, self.title, self.kinds, outcome, self.plot)
        for kind, largest in self.multiples:
            report.print_multiples(outcome, kind, largest)
        self.finish(outcome)

    def finish(self, outcome):
        """What follows the tables."""

    def _one_program(self, session, transport, command, group):
        try:
            texts = transport.run(command, session.results, self.ranks, self.layout,
                                  self.run_seconds, self.copies, group)
        except RunTimeout as why:
            raise RunTimeout(f"{why}{self.slow}") from None
        found = [parse(text, self.kinds) for text in texts]
        if not found[0] or any(f.keys() != found[0].keys() for f in found):
            raise RunFailed(f"{os.path.basename(command[0])} over {transport.name} printed no figures")
        return {key: sum(f[key] for f in found) / len(found) for key in found[0]}


def parse(text, kinds):
    names, values = {kind.name for kind in kinds}, {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[0] in names:
            values[fields[0], int(fields[1])] = float(fields[2])
    return values


def show(session, name, title, kinds, outcome, plot=""):
    """Tables, CSV and plots of one figure."""
    rows = report.summarize(kinds, outcome)
    for kind in kinds:
        report.print_table(kind, rows, outcome)
    report.print_rounds(name, outcome)
    report.write_tables(session.results, name, kinds, rows, outcome)
    plots.write_plots(session.results, plot or name, title, kinds, rows, outcome.names)
