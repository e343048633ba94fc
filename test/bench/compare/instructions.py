# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""Instructions of a message on either side, counted by callgrind: a figure without noise.

The program's four phases are dumped one by one; a phase with ten times as many messages minus one
with few leaves out what only first messages cost.
"""
import os
import shutil
import tempfile

from figure import Kind, show
from rounds import Outcome, Round, progress
from transports import RunFailed

SOURCE = "mpi_instructions.c"
# UCX's queue between two processes has room for 64 messages and frees it 32 at a time: a sender
# of more in one turn would wait for the receiver.
WINDOW = 32
WINDOWS = 20
VALGRIND = ["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no",
            "--toggle-collect=measured_*", "--dump-before=phase_end"]


class Instructions:
    name = "instructions"
    kinds = [
        Kind("send", "Sending 8 B, by window (1: blocking)", "instructions per message", digits=1,
             parameter="window", bars=True),
        Kind("receive", "Receiving 8 B, by window (1: blocking)", "instructions per message",
             digits=1, parameter="window", bars=True),
    ]

    def run(self, session):
        if not shutil.which("valgrind"):
            print("valgrind is not installed: no instructions are counted")
            return
        results = {}
        progress(f"{self.name}: {', '.join(t.name for t in session.transports)}")
        for transport in session.transports:
            try:
                with session.lock.held(), tempfile.TemporaryDirectory() as folder:
                    results[transport.name] = self.count(session, transport, folder)
            except RunFailed as why:
                if transport.name == "Torii":
                    raise
                print(f"{transport.name} is left out of {self.name}: {why}")
        outcome = Outcome(list(results), [Round(results)])
        show(session, self.name, "instructions of a message", self.kinds, outcome)

    @staticmethod
    def count(session, transport, folder):
        program = transport.compile(os.path.join(session.sources, SOURCE), session.programs)
        output = f"--callgrind-out-file={folder}/rank.%q{{{transport.rank_variable}}}"
        transport.run([*VALGRIND, output, program, folder, str(WINDOW), str(WINDOWS)], folder)
        results = {}
        for rank, kind in enumerate(("send", "receive")):
            few, many, few_single, many_single = (
                total(f"{folder}/rank.{rank}.{phase}") for phase in (1, 2, 3, 4))
            results[kind, WINDOW] = (many - few) / (9 * WINDOWS * WINDOW)
            results[kind, 1] = (many_single - few_single) / (90 * WINDOWS)
        if min(results.values()) <= 0:
            raise RunFailed(f"callgrind counted nothing over {transport.name}")
        return results


def total(path):
    try:
        with open(path) as f:
            for line in f:
                if line.startswith("totals:"):
                    return int(line.split()[1])
    except OSError:
        pass
    raise RunFailed(f"callgrind did not write {os.path.basename(path)}")


def figures(_args):
    return [Instructions()]
