#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""The same programs over Torii and over Open MPI's own transports, side by side.

First a ping-pong by message size, then LAMMPS's Lennard-Jones melt. The transports take turns in
short rounds, so that whatever else the machine does meets all of them; ratios are formed within
a round and their median is reported. Rounds in which the hypervisor took time away (steal in
/proc/stat) are discarded and counted. Tables go to standard output, tables as CSV and a plot to
the results folder. Exit status 0 if every run over Torii succeeded and all transports agree on
the physics; speed does not decide it.
"""
import argparse
import csv
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
MPICC = os.environ.get("MPICC", "mpicc.openmpi")
MPIRUN = os.environ.get("MPIRUN", "mpirun.openmpi")
LAMMPS_INPUT = "/usr/share/lammps/examples/melt/in.melt"
RUN_SECONDS = 180  # no single run takes longer, unless it hangs

# Debian's configuration switches pml/ucx off, and UCX's layer off where it knows no network
# device; the options switch both on again.
OTHERS = {
    "ob1+vader": ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"],
    "pml/ucx": ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any",
                "--mca", "pml_ucx_devices", "any", "-x", "UCX_TLS=posix,cma,self"],
}


class RunFailed(Exception):
    pass


def stolen_ticks():
    with open("/proc/stat") as f:
        fields = f.readline().split()
    return int(fields[8]) if len(fields) > 8 else 0


def torii_environment(prefix):
    """What `eval "$(torii-env)"` sets."""
    tool = os.path.join(prefix, "bin", "torii-env")
    if not os.access(tool, os.X_OK):
        sys.exit(f"compare: {tool} is missing; run contrib/setup first")
    script = 'eval "$("$1")" && env -0'
    text = subprocess.run(["sh", "-c", script, "sh", tool], stdout=subprocess.PIPE, check=True)
    pairs = (item.split("=", 1) for item in text.stdout.decode().split("\0") if "=" in item)
    return dict(pairs)


class Transport:
    def __init__(self, name, options, environment):
        self.name = name
        self.options = options
        self.environment = environment

    def run(self, binding, command, folder):
        """Runs two ranks; returns what they print."""
        line = [MPIRUN, "-n", "2", *binding, *self.options, *command]
        try:
            done = subprocess.run(line, env=self.environment, cwd=folder, timeout=RUN_SECONDS,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{command[0]} over {self.name}: no end within {RUN_SECONDS} s")
        if done.returncode != 0:
            words = [s for s in (done.stderr + done.stdout).splitlines() if s.strip(" -")]
            raise RunFailed(f"{command[0]} over {self.name}: exit status {done.returncode}: "
                            + " / ".join(words[:3]))
        return done.stdout


def make_transports(prefix, session_folder):
    """`session_folder` is for what launchers keep while they run: other jobs of this user, that
    start or end at the same time, then cannot get in their way."""
    plain = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                 PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                 OMP_NUM_THREADS="1", TMPDIR=session_folder)
    torii = dict(plain)
    torii.update((k, v) for k, v in torii_environment(prefix).items() if plain.get(k) != v)
    transports = [Transport("Torii", ["--mca", "pml", "cm", "--mca", "mtl", "torii"], torii)]
    return transports + [Transport(n, o, plain) for n, o in OTHERS.items()]


def turns(transports, number):
    """The order of a round: each transport is first, second and last equally often."""
    shift = number % len(transports)
    return transports[shift:] + transports[:shift]


def progress(text):
    print(f"-- {text}", flush=True)


def rounds_of(transports, wanted, what, one_run):
    """Runs clean rounds; returns [{transport name: result}], discarded, all_kept."""
    kept, tainted = [], []
    begin = shown = time.monotonic()
    while len(kept) < wanted and len(kept) + len(tainted) < 2 * wanted:
        before = stolen_ticks()
        results = {}
        for transport in turns(transports, len(kept) + len(tainted)):
            results[transport.name] = one_run(transport)
        (tainted if stolen_ticks() != before else kept).append(results)
        now = time.monotonic()
        if now - shown > 10:
            shown = now
            progress(f"{what}: {len(kept)} of {wanted} rounds, {now - begin:.0f} s")
    if len(kept) < min(wanted, 3):  # a host that always steals: better than nothing
        return kept + tainted, len(tainted), True
    return kept, len(tainted), False


def rounds_line(what, kept, discarded, all_kept):
    line = f"{what}: {len(kept)} rounds"
    if all_kept and discarded:
        return line + f"; time was stolen in {discarded} of them, too many to discard them"
    return line + f", {discarded} discarded because of stolen time"


# --- ping-pong --------------------------------------------------------------------------------

def parse_pingpong(text):
    values = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[0] in ("latency", "bandwidth"):
            values[fields[0], int(fields[1])] = float(fields[2])
    return values


def summarize(rounds, names):
    """Rows {kind, bytes, NAME: median, NAME_best: best, ratio}; ratio is Torii's time (or
    bandwidth) over the best other's, the median over rounds."""
    rows = []
    for kind, size in sorted(rounds[0][names[0]], key=lambda key: (key[0] != "latency", key[1])):
        best = min if kind == "latency" else max
        row = {"kind": kind, "bytes": size}
        for name in names:
            values = [r[name][kind, size] for r in rounds]
            row[name] = statistics.median(values)
            row[name + " best"] = best(values)
        if len(names) > 1:
            row["ratio"] = statistics.median(
                r["Torii"][kind, size] / best(r[n][kind, size] for n in names[1:])
                for r in rounds)
        rows.append(row)
    return rows


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def print_table(rows, names, kind, title):
    print(f"\n{title}")
    header = f"{'size':>8}" + "".join(f"{n:>12}" for n in names)
    print(header + ("   Torii / best other" if len(names) > 1 else ""))
    for row in (r for r in rows if r["kind"] == kind):
        line = f"{size_text(row['bytes']):>8}"
        line += "".join(f"{row[n]:>12.3f}" if kind == "latency" else f"{row[n]:>12.1f}"
                        for n in names)
        print(line + (f"{row['ratio']:>14.2f}" if "ratio" in row else ""))


def write_csv(path, rows):
    with open(path, "w", newline="") as f:
        writer = csv.DictWriter(f, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


PLOT = """\
set datafile separator ","
set key top left
set grid
set xlabel "message size in bytes"
set logscale xy
set format x "2^{{%L}}"
set logscale x 2
set style data linespoints
set terminal {terminal}
set output "{output}"
set multiplot layout 1,2 title "{title}"
set ylabel "one-way time in microseconds"
plot {latency}
set ylabel "bandwidth in MB/s"
plot {bandwidth}
unset multiplot
"""


def write_plots(folder, rows, names):
    """compare.svg and compare.png by gnuplot. Size 0 has no place on a logarithmic axis."""
    for kind in ("latency", "bandwidth"):
        with open(os.path.join(folder, kind + ".dat"), "w") as f:
            for row in rows:
                if row["kind"] == kind and row["bytes"] > 0:
                    f.write(",".join(str(row[k]) for k in ["bytes", *names]) + "\n")
    curves = {kind: ", ".join(f'"{kind}.dat" using 1:{i + 2} title "{n}" lw 2 pt {2 * i + 5}'
                              for i, n in enumerate(names)) for kind in ("latency", "bandwidth")}
    title = "two ranks on one node, each on its own core"
    for suffix, terminal in (("svg", "svg size 1200,500 background 'white'"),
                             ("png", "pngcairo size 1200,500")):
        script = os.path.join(folder, f"compare-{suffix}.gp")
        with open(script, "w") as f:
            f.write(PLOT.format(terminal=terminal, output=f"compare.{suffix}", title=title, **curves))
        subprocess.run(["gnuplot", os.path.basename(script)], cwd=folder, check=True)


def pingpong(args, transports, binding):
    program = os.path.join(args.results, "mpi_pingpong")
    subprocess.run([MPICC, "-O2", "-o", program, os.path.join(HERE, "mpi_pingpong.c")], check=True)
    usable = []
    for transport in transports:
        try:
            transport.run(binding, [program, "--max", "16", "--ms", "1"], args.results)
            usable.append(transport)
        except RunFailed as why:
            if transport.name == "Torii":
                raise
            print(f"{transport.name} cannot be used here and is left out: {why}")
    names = [t.name for t in usable]
    command = [program, "--max", str(args.max), "--ms", str(args.ms)]

    def one_run(transport):
        return parse_pingpong(transport.run(binding, command, args.results))

    progress(f"ping-pong over {', '.join(names)}: {args.rounds} rounds")
    rounds, discarded, all_kept = rounds_of(usable, args.rounds, "ping-pong", one_run)
    rows = summarize(rounds, names)
    print_table(rows, names, "latency",
                "Ping-pong: one-way time in microseconds, median of rounds (ratio below 1: Torii is faster)")
    print_table(rows, names, "bandwidth",
                "Stream: bandwidth in 10^6 bytes/s, median of rounds (ratio above 1: Torii is faster)")
    print(rounds_line("\nping-pong", rounds, discarded, all_kept))
    write_csv(os.path.join(args.results, "pingpong.csv"), rows)
    write_csv(os.path.join(args.results, "pingpong-rounds.csv"),
              [{"round": i, "transport": n, "kind": k, "bytes": b, "value": v}
               for i, r in enumerate(rounds) for n in names for (k, b), v in r[n].items()])
    write_plots(args.results, rows, names)
    return usable


# --- LAMMPS -----------------------------------------------------------------------------------

def parse_lammps(text):
    """(seconds of the main loop, the last line of the table of energies)."""
    loop = re.search(r"^Loop time of (\S+) on 2 procs", text, re.MULTILINE)
    table = re.search(r"^ *Step +.*\n((?: *\d+ .*\n)+)", text, re.MULTILINE)
    if not loop or not table:
        raise RunFailed("LAMMPS did not run its two-rank main loop to the end")
    return float(loop.group(1)), table.group(1).strip().splitlines()[-1].split()


def lammps(args, transports, binding):
    """True if all transports end with the same energies."""
    program = shutil.which("lmp")
    if not program or not os.path.exists(LAMMPS_INPUT):
        print("\nLAMMPS or its examples are not installed (packages lammps, lammps-examples)")
        return False
    names = [t.name for t in transports]

    def one_run(transport):
        output = transport.run(binding, [program, "-in", LAMMPS_INPUT, "-log", "none"], args.results)
        return parse_lammps(output)

    progress(f"LAMMPS, Lennard-Jones melt: {args.lammps_rounds} rounds")
    rounds, discarded, all_kept = rounds_of(transports, args.lammps_rounds, "LAMMPS", one_run)
    ends = {tuple(result[1]) for r in rounds for result in r.values()}
    print("\nLAMMPS, Lennard-Jones melt on two ranks: seconds of the main loop, and the last line of")
    print("the table of energies (step, temperature, pair, molecular and total energy, pressure)")
    rows = []
    for name in names:
        seconds = statistics.median(r[name][0] for r in rounds)
        ratio = statistics.median(r["Torii"][0] / r[name][0] for r in rounds)
        final = " ".join(rounds[-1][name][1])
        rows.append({"transport": name, "seconds": seconds, "Torii / this": ratio, "final": final})
        print(f"{name:>12}{seconds:>9.3f}   {final}"
              + (f"   Torii / this {ratio:.2f}" if name != "Torii" else ""))
    print("final energies: " + ("the same in every run" if len(ends) == 1 else "THEY DIFFER"))
    print(rounds_line("LAMMPS", rounds, discarded, all_kept))
    write_csv(os.path.join(args.results, "lammps.csv"), rows)
    return len(ends) == 1


def machine_lines():
    def first(command):
        try:
            return subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
        except (OSError, IndexError):
            return "?"
    model = "?"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    cores = len(os.sched_getaffinity(0))
    print(f"machine: {model}, {cores} cores usable, Linux {os.uname().release}")
    print(f"Open MPI: {first([MPICC, '--showme:version'])}")
    load = os.getloadavg()[0]
    if load > 0.7:
        print(f"note: the machine is busy (load {load:.1f}); the figures will show it")
    return cores


def main():
    parser = argparse.ArgumentParser(prog="contrib/compare", description=__doc__.split("\n\n")[0])
    parser.add_argument("--prefix", default=os.path.join(TOP, "install"))
    parser.add_argument("--results", default=os.path.join(TOP, "results"))
    parser.add_argument("--rounds", type=int, default=25, help="of the ping-pong (%(default)s)")
    parser.add_argument("--lammps-rounds", type=int, default=7, help="of LAMMPS (%(default)s)")
    parser.add_argument("--max", type=int, default=4 << 20, help="largest message (%(default)s)")
    parser.add_argument("--ms", type=float, default=8, help="time for each size (%(default)s)")
    args = parser.parse_args()
    args.results = os.path.abspath(args.results)
    os.makedirs(args.results, exist_ok=True)
    cores = machine_lines()
    binding = ["--map-by", "core", "--bind-to", "core"]
    if cores < 2:
        print("note: two ranks share one core here; this compares waiting, not transports")
        binding = ["--oversubscribe", "--bind-to", "none"]
    try:
        with tempfile.TemporaryDirectory(prefix="torii-compare-") as session_folder:
            usable = pingpong(args, make_transports(args.prefix, session_folder), binding)
            agreed = lammps(args, usable, binding)
    except RunFailed as why:
        sys.exit(f"compare: {why}")
    shown = os.path.relpath(args.results)
    print(f"\ntables: {shown}/pingpong.csv, pingpong-rounds.csv, lammps.csv; "
          f"plot: {shown}/compare.svg, compare.png")
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
