# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""Makes the nodes: a switch (a network namespace with one bridge for each rail) and, inside its
process namespace, the nodes. When the switch's first process ends, the kernel ends all others, and
what they had mounted and plugged together goes with them."""
import os
import signal
import socket
import subprocess
import traceback

import linux
from session import Server

SWITCH = "switch"
RAILS_MAX = 8


def ipv4(rail, node):
    return f"10.77.{rail}.{node}"


def ipv6(rail, node):
    return f"fd77:{rail}::{node:x}"


def port(node, rail):
    """The switch's end of a node's cable."""
    return f"{node}-{rail}"


def loss_program(percent):
    """For tc: classic BPF that draws a random number (ancillary data 56) and drops below a limit."""
    limit = min(int(percent / 100 * 2**32), 2**32 - 1)
    lines = [(0x20, 0, 0, 2**32 - 0x1000 + 56),  # load the number
             (0x35, 1, 0, limit),  # not below: skip one line
             (0x06, 0, 0, 2),  # drop
             (0x06, 0, 0, 2**32 - 1)]  # let pass
    return ",".join([str(len(lines)), *(" ".join(map(str, line)) for line in lines)])


def ip(*words):
    result = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {result.stderr.strip()}")


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def sysctl(name, value):
    """Not every kernel has every one of them."""
    try:
        write(f"/proc/sys/{name}", value)
    except OSError:
        pass


# --- what a node sees -----------------------------------------------------------------------------

def private_mounts(state, shared, hosts):
    """Its own /proc, /sys, /tmp and /dev/shm; of the machine's /tmp only the shared folders."""
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    kept = {path: os.open(path, os.O_PATH) for path in {state, *shared}}
    groups = os.open("/sys/fs/cgroup", os.O_PATH) if os.path.isdir("/sys/fs/cgroup") else None
    linux.mount(hosts, "/etc/hosts", None, linux.MS_BIND)
    linux.mount("tmpfs", "/tmp", "tmpfs", data="mode=1777")
    linux.mount("tmpfs", "/dev/shm", "tmpfs", data="mode=1777")
    linux.mount("sysfs", "/sys", "sysfs")
    for path, descriptor in sorted(kept.items()):
        if path.startswith("/tmp/"):
            os.makedirs(path, exist_ok=True)
            linux.mount(f"/proc/self/fd/{descriptor}", path, None, linux.MS_BIND | linux.MS_REC)
        os.close(descriptor)
    if groups is not None:
        linux.mount(f"/proc/self/fd/{groups}", "/sys/fs/cgroup", None,
                    linux.MS_BIND | linux.MS_REC)
        os.close(groups)
    linux.mount("proc", "/proc", "proc")


def quick_ipv6(*devices):
    """Addresses are unique by construction: no second of waiting for objections. Devices that are
    there already have settings of their own."""
    for name in ("all", "default", *devices):
        sysctl(f"net/ipv6/conf/{name}/accept_dad", "0")
        sysctl(f"net/ipv6/conf/{name}/accept_ra", "0")
        sysctl(f"net/ipv6/conf/{name}/disable_ipv6", "0")


def run_node(plan, number, ready):
    """Process 1 of node `number`; the switch plugs the cables in before it writes to `ready`."""
    name = plan["nodes"][number - 1]
    socket.sethostname(name)
    private_mounts(plan["state"], plan["shared"], os.path.join(plan["state"], "hosts"))
    os.read(ready, 1)
    os.close(ready)
    devices = [f"eth{rail}" for rail in range(plan["rails"])]
    quick_ipv6(*devices)
    ip("link", "set", "lo", "up")
    for rail, device in enumerate(devices):
        ip("link", "set", device, "mtu", str(plan["mtu"]), "up")
        ip("addr", "add", f"{ipv4(rail, number)}/24", "dev", device)
        ip("-6", "addr", "add", f"{ipv6(rail, number)}/64", "dev", device)
    Server(os.path.join(plan["state"], name)).serve()


# --- the switch -----------------------------------------------------------------------------------

def start_node(plan, number):
    """Returns its process id and the descriptor that lets it go on."""
    ready, go = os.pipe()
    made, tell = os.pipe()
    if os.fork() == 0:
        try:
            linux.unshare(linux.NODE)
            child = os.fork()
            if child:  # only the child is in the new process namespace
                os.write(tell, str(child).encode())
                os._exit(0)
            os.setsid()
            for descriptor in (go, made, tell):
                os.close(descriptor)
            run_node(plan, number, ready)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(ready)
    os.close(tell)
    text = os.read(made, 32)
    os.close(made)
    if not text:
        raise OSError(f"node {number} could not be made")
    return int(text), go


def run_switch(plan):
    """Process 1 of the cluster. Its socket appears when all is plugged in."""
    socket.sethostname(SWITCH)
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("proc", "/proc", "proc")
    quick_ipv6()
    ip("link", "set", "lo", "up")
    for rail in range(plan["rails"]):
        ip("link", "add", "name", f"rail{rail}", "type", "bridge", "mcast_snooping", "0")
        ip("link", "set", f"rail{rail}", "mtu", str(plan["mtu"]), "up")
    for number, name in enumerate(plan["nodes"], 1):
        pid, go = start_node(plan, number)
        for rail in range(plan["rails"]):
            cable = port(name, rail)
            ip("link", "add", "name", cable, "mtu", str(plan["mtu"]), "type", "veth",
               "peer", "name", f"eth{rail}", "netns", str(pid))
            ip("link", "set", cable, "master", f"rail{rail}", "up")
        os.write(go, b"g")
        os.close(go)
    Server(os.path.join(plan["state"], SWITCH)).serve()


def supervise(plan, remember):
    """Outside of the cluster: starts it, calls remember(process id of the switch) and returns when
    it has ended. They end together, however one of them does."""
    linux.become_root()
    linux.unshare(linux.NODE)
    child = os.fork()
    if child == 0:
        try:
            linux.die_with_parent()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            run_switch(plan)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
    remember(child)
    os.waitpid(child, 0)
