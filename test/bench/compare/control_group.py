# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""A control group with a limited share of the processors, as containers get it."""
import contextlib
import os
import time

ROOT = "/sys/fs/cgroup"
PERIOD_US = 100_000


class NoGroup(Exception):
    """Groups cannot be made here; the text says why."""


def own_path(controller):
    """This process's group; the controller's name is empty for the unified hierarchy."""
    with open("/proc/self/cgroup") as f:
        for line in f:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controller in controllers.split(","):
                return path.rstrip("/")
    return None


def make(processors):
    """The new group's folder."""
    quota = int(processors * PERIOD_US)
    path = own_path("cpu")
    unified = path is None
    folder = ROOT if unified else os.path.join(ROOT, "cpu")
    group = f"{folder}{own_path('') or '' if unified else path}/torii-compare-{os.getpid()}"
    try:
        os.mkdir(group)
    except OSError as why:
        raise NoGroup(f"no control group can be made: {why}") from None
    limits = {"cpu.max": f"{quota} {PERIOD_US}"} if unified else {
        "cpu.cfs_period_us": f"{PERIOD_US}", "cpu.cfs_quota_us": f"{quota}"}
    try:
        for name, value in limits.items():
            with open(os.path.join(group, name), "w") as f:
                f.write(value)
    except OSError as why:
        os.rmdir(group)
        raise NoGroup(f"a control group cannot be limited: {why}") from None
    return group


@contextlib.contextmanager
def limited(processors):
    """A group of which all processes together get so many processors; gone afterwards."""
    group = make(processors)
    try:
        yield group
    finally:
        for _ in range(50):  # the last of its processes may not be reaped yet
            try:
                return os.rmdir(group)
            except OSError:
                time.sleep(0.1)


def enter(group):
    """For a child before it becomes another program."""
    with open(os.path.join(group, "cgroup.procs"), "w") as f:
        f.write("0")
