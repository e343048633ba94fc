# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""intruder.py DEVICE COUNT: listens at the switch's end of a node's cable and sends to the node so
many datagrams made of what it hears: again, damaged, cut short, with another number and a new checksum,
with the head of another process's datagrams, in another process's name, and noise to the same ports.
Half of them are new, the others were sent before. Gives up when nothing more is heard. Prints how
many."""
import random
import socket
import struct
import sys
import time

ETHERNET, IPV4, UDP = 14, 20, 8
PAYLOAD = ETHERNET + IPV4 + UDP
DRIVER_HEADER = 16  # src/drivers/udp/wire.h
SENDER = 8
SEQUENCE = 8  # in the link's header, src/core/link/header.h
TAG = 24
MAGIC = b"\x55\x44"
KEPT = 400
STOCK = 4000
QUIET = 20  # seconds
LONGEST = ETHERNET + 1500
CRC = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    CRC.append(byte)


def crc32c(crc, data):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def datagram(packet, payload):
    """The same addresses and ports, another payload; a UDP checksum of 0 is none."""
    size = len(payload)
    head = bytearray(packet[:PAYLOAD])
    struct.pack_into("!H", head, ETHERNET + 2, IPV4 + UDP + size)
    struct.pack_into("!H", head, ETHERNET + 10, 0)
    total = sum(struct.unpack("!10H", head[ETHERNET:ETHERNET + IPV4]))
    total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into("!H", head, ETHERNET + 10, ~(total + (total >> 16)) & 0xFFFF)
    struct.pack_into("!HH", head, ETHERNET + IPV4 + 4, UDP + size, 0)
    return bytes(head) + payload


def damaged(payload):
    out = bytearray(payload)
    for _ in range(random.randint(1, 4)):
        out[random.randrange(len(out))] ^= 1 << random.randrange(8)
    return bytes(out)


def forged(payload):
    """A frame with a number of its own, and the checksum that belongs to it."""
    frame = bytearray(payload[DRIVER_HEADER:])
    struct.pack_into("<I", frame, SEQUENCE, random.getrandbits(32))
    struct.pack_into("<I", frame, 4, 0)
    struct.pack_into("<I", frame, 4, crc32c(crc32c(0, frame[TAG + 8:]), frame[:TAG]))
    return payload[:DRIVER_HEADER] + bytes(frame)


def variants(packet, other):
    payload = packet[PAYLOAD:]
    yield packet[:LONGEST]
    yield datagram(packet, payload)
    yield datagram(packet, damaged(payload))
    yield datagram(packet, payload[:random.randrange(len(payload))])
    yield datagram(packet, random.randbytes(random.randrange(1400)))
    yield datagram(packet, payload[:DRIVER_HEADER] + random.randbytes(random.randrange(1400)))
    yield datagram(packet, other[PAYLOAD:])
    yield datagram(packet, payload[:DRIVER_HEADER] + other[PAYLOAD + DRIVER_HEADER:])
    yield datagram(packet, payload[:SENDER] + random.randbytes(8) + payload[DRIVER_HEADER:])
    yield datagram(packet, payload[:SENDER] + other[PAYLOAD + SENDER:PAYLOAD + DRIVER_HEADER] +
                   payload[DRIVER_HEADER:])
    if TAG + 8 + DRIVER_HEADER <= len(payload) < 200:
        yield datagram(packet, forged(payload))


def hear(wire, heard):
    """Adds what is there; true if something was."""
    packet, address = wire.recvfrom(65536)
    to_node = address[2] == socket.PACKET_OUTGOING
    if not (to_node and packet[PAYLOAD:PAYLOAD + 2] == MAGIC and packet[23] == 17 and
            packet[12:14] == b"\x08\x00" and len(packet) <= LONGEST):
        return False
    heard.append(packet)
    if len(heard) > KEPT:
        heard.pop(random.randrange(KEPT))
    return True


def main():
    device, count = sys.argv[1], int(sys.argv[2])
    heard, stock, sent = [], [], 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire:
        wire.bind((device, 0))
        wire.setblocking(False)
        quiet, last = 0, time.monotonic()
        while sent < count and quiet < QUIET:
            now = time.monotonic()
            quiet += min(now - last, 0.1)  # all may have been stopped for a while
            last = now
            try:
                for _ in range(20):
                    if hear(wire, heard):
                        quiet = 0
            except BlockingIOError:
                pass
            if len(heard) < 2:
                continue
            new = list(variants(*random.sample(heard, 2)))
            stock.extend(new)
            del stock[:-STOCK]
            for variant in new + random.sample(stock, len(new)):
                try:
                    wire.send(variant)
                    sent += 1
                except OSError:
                    pass  # no room at the device
    print(f"{sent} datagrams of an intruder")


main()
