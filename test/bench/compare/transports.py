# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""Transports: how a program is compiled for each of them and started over it.

To compare with another one, add it in make_transports.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import control_group

MPICC = os.environ.get("MPICC", "mpicc.openmpi")
MPIRUN = os.environ.get("MPIRUN", "mpirun.openmpi")
MPICH_MPICC = "mpicc.mpich"
MPICH_MPIEXEC = "mpiexec.mpich"

# Layouts of ranks on the cores.
BOUND = "bound"  # each rank on a core of its own
OVERSUBSCRIBED = "oversubscribed"  # more ranks than cores, and the launcher knows it
UNANNOUNCED = "unannounced"  # not bound, and the launcher knows of no shortage


THREADED = "Torii, thread"
# osc/sm for windows of MPI_Win_allocate on one node, osc/rdma over Torii for the others.
TORII_ONE_SIDED = "--mca btl torii,self --mca osc sm,rdma"


class RunFailed(Exception):
    pass


class RunTimeout(RunFailed):
    pass


class Transport:
    def __init__(self, name, compiler, launcher, layouts, environment, rank_variable):
        self.name = name
        self.compiler = compiler
        self.launcher = launcher
        self.layouts = layouts  # {layout: the launcher's options}
        self.environment = environment
        self.rank_variable = rank_variable  # the launcher's variable for a process's rank

    def compile(self, source, folder):
        """Compiles for this transport's MPI, once; returns the program's path."""
        name = os.path.splitext(os.path.basename(source))[0]
        program = os.path.join(folder, f"{name}{self.compiler.replace(os.sep, '.')}")
        if os.path.exists(program):
            return program
        # MPICH's mpi.h tells gcc 12 sizes of arrays that MPI_STATUSES_IGNORE does not have.
        line = [self.compiler, "-O2", "-Wno-stringop-overflow", "-o", program, source]
        done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RunFailed(f"{self.compiler} cannot compile {name}: {done.stdout.strip()[:300]}")
        return program

    def run(self, command, folder, ranks=2, layout=BOUND, seconds=120, copies=1, group=None):
        """Runs jobs, `copies` of them at once, in a control group if one is given; returns what
        each of them prints."""
        line = [self.launcher, "-n", str(ranks), *self.layouts[layout], *command]
        end = time.monotonic() + seconds
        jobs = [subprocess.Popen(line, env=self.environment, cwd=folder, text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, start_new_session=True,
                                 preexec_fn=group and (lambda: control_group.enter(group)))
                for _ in range(copies)]
        what = f"{os.path.basename(command[0])} over {self.name}"
        try:
            return [self._output(job, what, end, seconds) for job in jobs]
        finally:
            for job in jobs:
                stop(job)

    @staticmethod
    def _output(job, what, end, seconds):
        try:
            output, errors = job.communicate(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise RunTimeout(f"{what}: no end within {seconds:g} s") from None
        if job.returncode != 0:
            words = [s for s in (errors + output).splitlines() if s.strip(" -=")]
            raise RunFailed(f"{what}: exit status {job.returncode}: " + " / ".join(words[:3]))
        return output


def stop(job):
    """Asks the launcher to end its processes; kills what is left."""
    if job.poll() is None:
        job.terminate()
        try:
            job.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            job.communicate()


def torii_environment(prefix):
    """What `eval "$(torii-env)"` sets."""
    tool = os.path.join(prefix, "bin", "torii-env")
    if not os.access(tool, os.X_OK):
        sys.exit(f"compare: {tool} is missing; run contrib/setup first")
    script = 'eval "$("$1")" && env -0'
    text = subprocess.run(["sh", "-c", script, "sh", tool], stdout=subprocess.PIPE, check=True)
    pairs = (item.split("=", 1) for item in text.stdout.decode().split("\0") if "=" in item)
    return dict(pairs)


def with_thread(torii):
    """Torii with its progress thread."""
    return Transport(THREADED, torii.compiler, torii.launcher, torii.layouts,
                     dict(torii.environment, TORII_PROGRESS_THREAD="1"), torii.rank_variable)


def with_options(transport, name, options):
    layouts = {layout: line + options.split() for layout, line in transport.layouts.items()}
    return Transport(name, transport.compiler, transport.launcher, layouts, transport.environment,
                     transport.rank_variable)


def one_sided_transports(transports):
    """Open MPI's components of one-sided communication, Torii first."""
    known = {transport.name: transport for transport in transports}
    found = [with_options(known["Torii"], "Torii", TORII_ONE_SIDED)]
    if "ob1+vader" in known:
        found += [with_options(known["ob1+vader"], "osc/rdma", "--mca osc rdma"),
                  with_options(known["ob1+vader"], "osc/sm", "--mca osc sm")]
    if "pml/ucx" in known:
        found += [with_options(known["pml/ucx"], "osc/ucx", "--mca osc ucx")]
    return found


def open_mpi(name, options, environment, cores):
    layouts = {BOUND: ["--map-by", "core", "--bind-to", "core"],
               OVERSUBSCRIBED: ["--oversubscribe", "--bind-to", "none"],
               UNANNOUNCED: ["--bind-to", "none"]}
    if cores < 2:
        layouts[BOUND] = layouts[UNANNOUNCED] = layouts[OVERSUBSCRIBED]
    layouts = {layout: line + options for layout, line in layouts.items()}
    return Transport(name, MPICC, MPIRUN, layouts, environment, "OMPI_COMM_WORLD_RANK")


def mpich_device(mpichversion):
    return first_match([mpichversion], r"Device:\s*(\S+)") or "?"


def mpich(name, compiler, launcher, environment, cores):
    layouts = {BOUND: ["-bind-to", "core"], OVERSUBSCRIBED: ["-bind-to", "none"],
               UNANNOUNCED: ["-bind-to", "none"]}
    if cores < 2:
        layouts[BOUND] = layouts[UNANNOUNCED]
    return Transport(name, compiler, launcher, layouts, environment, "PMI_RANK")


def installed_mpich(environment, cores):
    if not shutil.which(MPICH_MPICC) or not shutil.which(MPICH_MPIEXEC):
        print("MPICH is not installed (packages mpich, libmpich-dev) and is left out")
        return None
    return mpich(f"MPICH {mpich_device('mpichversion')}", MPICH_MPICC, MPICH_MPIEXEC, environment,
                 cores)


def mpich_transports(wanted, session_folder, cores):
    """`wanted` is "PREFIX[,[NAME=]PREFIX...]" of installed MPICHs, that with the netmod first."""
    environment = plain_environment(session_folder)
    found = []
    for item in wanted.split(","):
        name, prefix = item.split("=", 1) if "=" in item else ("", item)
        tools = {tool: os.path.join(os.path.abspath(prefix), "bin", tool)
                 for tool in ("mpicc", "mpiexec", "mpichversion")}
        for tool in tools.values():
            if not os.access(tool, os.X_OK):
                sys.exit(f"compare: {tool} is missing; --mpich wants the prefix of an installed MPICH")
        device = mpich_device(tools["mpichversion"])
        if not found and device != "ch4:torii":
            sys.exit(f"compare: the MPICH in {prefix} is {device}; the first one must be ch4:torii")
        name = name or device if found else "Torii"
        if name in (other.name for other in found):
            sys.exit(f"compare: two are called {name}; give one a name: NAME={prefix}")
        found.append(mpich(name, tools["mpicc"], tools["mpiexec"], environment, cores))
    return found


def plain_environment(session_folder):
    """`session_folder` is for what launchers keep while they run: other jobs of this user, that
    start or end at the same time, then cannot get in their way."""
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                OMP_NUM_THREADS="1", TMPDIR=session_folder)


def make_transports(prefix, session_folder, cores):
    """Torii first."""
    plain = plain_environment(session_folder)
    torii = dict(plain)
    torii.update((k, v) for k, v in torii_environment(prefix).items() if plain.get(k) != v)
    # Debian's configuration switches pml/ucx off, and UCX's layer off where it knows no network
    # device; the options switch both on again.
    ucx = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any",
           "-x", "UCX_TLS=posix,cma,self"]
    found = [
        open_mpi("Torii", ["--mca", "pml", "cm", "--mca", "mtl", "torii"], torii, cores),
        open_mpi("ob1+vader", ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"], plain, cores),
        open_mpi("pml/ucx", ucx, plain, cores),
        installed_mpich(plain, cores),
    ]
    return [transport for transport in found if transport]


def make_network_transports(prefix, session_folder, cores):
    """Networks, of processes on this machine: Torii first. Torii's components are also those of
    one-sided communication, as btl/tcp is."""
    plain = plain_environment(session_folder)
    torii = dict(plain, TORII_DRIVERS="self,udp")
    torii.update((k, v) for k, v in torii_environment(prefix).items() if plain.get(k) != v)
    return [
        open_mpi("Torii", ["--mca", "pml", "cm", "--mca", "mtl", "torii",
                                "--mca", "btl", "torii,self"], torii, cores),
        open_mpi("ob1+tcp", ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"], plain, cores),
    ]


def first_match(command, pattern):
    """The pattern's group in what a command prints; None if either fails."""
    try:
        text = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    except OSError:
        return None
    found = re.search(pattern, text)
    return found.group(1) if found else None
