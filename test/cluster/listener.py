# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""listener.py DEVICE FILE: listens at the switch's end of a node's cable until there is such a file, and
looks into Torii's datagrams for what exchange.c sends: bytes each of which is one more than the one
before. Prints how many datagrams it has heard, and in how many of them some could be read."""
import os
import socket
import sys

ETHERNET = 14
MAGIC = b"\x55\x44"
RUN = 24
RISING = bytes(range(256)) * 2


def payload_of(packet):
    """Of UDP over IPv4 or IPv6, if it is Torii's; else nothing."""
    kind = packet[12:14]
    if kind == b"\x08\x00" and packet[23] == 17:
        start = ETHERNET + 4 * (packet[ETHERNET] & 15) + 8
    elif kind == b"\x86\xdd" and packet[20] == 17:
        start = ETHERNET + 40 + 8
    else:
        return b""
    return packet[start:] if packet[start:start + 2] == MAGIC else b""


def is_readable(payload):
    """A run of twice the length has a whole one at one of these places."""
    return any(payload[at:at + RUN] == RISING[payload[at]:payload[at] + RUN]
               for at in range(0, len(payload) - RUN, RUN))


def main():
    device, end = sys.argv[1:]
    heard = readable = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire:
        wire.bind((device, 0))
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        wire.settimeout(0.1)
        print("listening", flush=True)
        while not os.path.exists(end):
            try:
                payload = payload_of(wire.recv(65536))
            except TimeoutError:
                continue
            if payload:
                heard += 1
                readable += is_readable(payload)
    print(f"{heard} datagrams, {readable} readable")


main()
