#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""Makes the initramfs of the virtual machine: busybox, /init and the kernel's modules for soft RoCE.

usage: initramfs.py KERNEL INIT OUTPUT

KERNEL is a folder with Debian's packages of a kernel and of busybox-static unpacked in it. Prints the
modules in the order in which they load. What a module needs it says itself (.modinfo): unpacked
packages have no modules.dep.
"""
import glob
import lzma
import os
import re
import stat
import sys

WANTED = ("virtio_pci", "9pnet_virtio", "9p", "virtio_net", "ib_uverbs", "crc32_generic", "rdma_rxe")
APPLETS = ("sh", "mount", "umount", "insmod", "mkdir", "chroot", "poweroff", "echo", "ip", "hostname")


def find_modules(kernel):
    """{name: path} of all modules, compressed or not."""
    found = {}
    for folder, _, names in os.walk(os.path.join(kernel, "lib", "modules")):
        for name in names:
            match = re.fullmatch(r"(.*)\.ko(\.xz)?", name)
            if match:
                found[match[1].replace("-", "_")] = os.path.join(folder, name)
    return found


def read_module(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rb") as file:
        return file.read()


def add_with_needs(name, found, order):
    """Appends (name, content) after what it needs. Modules that are not found are in the kernel."""
    if name not in found or any(name == known for known, _ in order):
        return
    content = read_module(found[name])
    for match in re.finditer(rb"\0depends=([^\0]*)\0", content):
        for need in match[1].decode().split(","):
            add_with_needs(need.replace("-", "_"), found, order)
    order.append((name, content))


class Archive:
    """A cpio archive in the format "newc", which the kernel unpacks."""

    def __init__(self, file):
        self.file = file
        self.count = 0

    def add(self, name, mode, content=b"", device=(0, 0)):
        self.count += 1
        fields = (self.count, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        for part in (head, content):
            self.file.write(part + b"\0" * (-len(part) % 4))


def main():
    kernel, init, output = sys.argv[1:]
    busybox = glob.glob(os.path.join(kernel, "*bin", "busybox")) + glob.glob(
        os.path.join(kernel, "usr", "bin", "busybox"))
    found = find_modules(kernel)
    if not busybox or "rdma_rxe" not in found:
        print(f"there is no busybox or no module rdma_rxe in {kernel}")
        return 1
    order = []
    for name in WANTED:
        add_with_needs(name, found, order)
    with open(output, "wb") as file:
        archive = Archive(file)
        for folder in ("bin", "dev", "proc", "sys", "modules", "root"):
            archive.add(folder, stat.S_IFDIR | 0o755)
        archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
        archive.add("dev/null", stat.S_IFCHR | 0o666, device=(1, 3))
        with open(busybox[0], "rb") as program:
            archive.add("bin/busybox", stat.S_IFREG | 0o755, program.read())
        for name in APPLETS:
            archive.add("bin/" + name, stat.S_IFLNK | 0o777, b"busybox")
        with open(init, "rb") as script:
            archive.add("init", stat.S_IFREG | 0o755, script.read())
        for name, content in order:
            archive.add(f"modules/{name}.ko", stat.S_IFREG | 0o644, content)
        names = "".join(name + "\n" for name, _ in order)
        archive.add("modules/order", stat.S_IFREG | 0o644, names.encode())
        archive.add("TRAILER!!!", 0)
    print(names, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
