# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""The system calls that Python's library lacks."""
import ctypes
import os
import signal

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
NODE = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET

MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags):
    _check(_libc.unshare(flags), "unshare")


def mount(source, target, kind, flags=0, data=None):
    text = [None if word is None else word.encode() for word in (source, target, kind, data)]
    _check(_libc.mount(text[0], text[1], text[2], ctypes.c_ulong(flags), text[3]),
           f"mount {source} on {target}")


def die_with_parent():
    """The calling process is killed when the thread that made it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def become_root():
    """An ordinary user becomes root of a user namespace, where the rest is permitted."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        return
    unshare(CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def start_time(pid):
    """When a living process began, in clock ticks since boot; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
