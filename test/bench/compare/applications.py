# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""LAMMPS's Lennard-Jones melt, and a molecule by NWChem; all transports must end with the same
energies."""
import os
import re
import shutil
import tempfile
import time

from figure import Kind, show
from rounds import run_rounds
from transports import BOUND, MPICC, OVERSUBSCRIBED, RunFailed

INPUT = "/usr/share/lammps/examples/melt/in.melt"


class Melt:
    def __init__(self, name, ranks, layout, rounds, seconds):
        self.name, self.ranks, self.layout = name, ranks, layout
        self.rounds, self.seconds = rounds, seconds
        self.kinds = [Kind("melt", f"LAMMPS, Lennard-Jones melt on {ranks} ranks: main loop",
                           "seconds", parameter="ranks", bars=True)]

    def run(self, session):
        program = shutil.which("lmp")
        if not program or not os.path.exists(INPUT):
            raise RunFailed("LAMMPS or its examples are not installed (packages lammps, "
                            "lammps-examples)")
        # Debian's LAMMPS is compiled for Open MPI.
        usable = [t for t in session.transports if t.compiler == MPICC]
        if not usable:
            raise RunFailed("the installed LAMMPS is Open MPI's")
        for other in session.transports:
            if other not in usable:
                print(f"{other.name} is left out of {self.name}: the installed LAMMPS is Open MPI's")
        ends = {}

        def one_run(transport):
            text, = transport.run([program, "-in", INPUT, "-log", "none"], session.results,
                                  self.ranks, self.layout, 90)
            seconds, end = self.parse(text)
            ends.setdefault(end, transport.name)
            return {("melt", self.ranks): seconds}

        outcome = run_rounds(session, self.name, usable,
                             *session.lammps_rounds(self.rounds, self.seconds), one_run)
        show(session, self.name, f"LAMMPS melt, {self.ranks} ranks", self.kinds, outcome)
        print("last line of the energies (step, temperature, pair, molecular and total energy, "
              "pressure):")
        for end, name in ends.items():
            print(f"  {end}" + (f"   {name}" if len(ends) > 1 else "   the same in every run"))
        if len(ends) > 1:
            raise RunFailed("the final energies differ")

    def parse(self, text):
        """(seconds of the main loop, the last line of the table of energies)."""
        loop = re.search(rf"^Loop time of (\S+) on {self.ranks} procs", text, re.MULTILINE)
        table = re.search(r"^ *Step +.*\n((?: *\d+ .*\n)+)", text, re.MULTILINE)
        if not loop or not table:
            raise RunFailed(f"LAMMPS did not run its main loop on {self.ranks} ranks to the end")
        return float(loop.group(1)), " ".join(table.group(1).strip().splitlines()[-1].split())


# Water: density functional theory with B3LYP in 6-31G*, energy and gradient.
WATER = """start water
geometry
 O 0.0 0.0 0.1173
 H 0.0 0.7572 -0.4692
 H 0.0 -0.7572 -0.4692
end
basis
 * library 6-31g*
end
dft
 xc b3lyp
end
task dft gradient
"""


class Nwchem:
    """Windows and messages of small sizes, over networks."""

    def __init__(self, name, ranks, layout, rounds, seconds):
        self.name, self.ranks, self.layout = name, ranks, layout
        self.rounds, self.seconds = rounds, seconds
        self.kinds = [Kind("nwchem", f"NWChem, gradient of water on {ranks} ranks: whole run",
                           "seconds", parameter="ranks", bars=True)]

    def run(self, session):
        program = shutil.which("nwchem.openmpi")
        if not program or not session.networks:
            print(f"{self.name} is left out: it needs Debian's package nwchem-openmpi, and Open MPI",
                  flush=True)
            return
        energies = {}

        def one_run(transport):
            with tempfile.TemporaryDirectory(dir=session.programs) as folder:
                with open(os.path.join(folder, "water.nw"), "w") as file:
                    file.write(WATER)
                begin = time.monotonic()
                text, = transport.run([program, "water.nw"], folder, self.ranks, self.layout, 180)
                seconds = time.monotonic() - begin
            energy = re.search(r"Total DFT energy = *(-?[0-9]+[.][0-9]{8})", text)
            if not energy:
                raise RunFailed(f"NWChem over {transport.name} found no energy")
            energies.setdefault(energy.group(1), transport.name)
            return {("nwchem", self.ranks): seconds}

        outcome = run_rounds(session, self.name, session.networks,
                             *session.rounds(self.rounds, self.seconds), one_run, steady=False)
        show(session, self.name, f"NWChem, {self.ranks} ranks", self.kinds, outcome)
        if len(energies) > 1:
            raise RunFailed(f"the energies differ: {energies}")


def figures(_args):
    return [Nwchem("nwchem", 4, OVERSUBSCRIBED, rounds=5, seconds=60),
            Melt("lammps", 2, BOUND, rounds=5, seconds=60),
            Melt("lammps-8", 8, OVERSUBSCRIBED, rounds=9, seconds=60)]
