# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""intruder.py DEVICE COUNT [OTHER]: listens at the switch's end of a node's cable and sends to the node
so many datagrams made of what it hears: again, damaged, cut short, with another number and a new
checksum, with the head of another process's datagrams, in another process's name, and noise to the same
ports. Half of them are new, the others were sent before.

With them go others from addresses of its own, one for each attack below; and pings to the cable OTHER,
whose interface is not used. Whatever the node sends to one of these addresses is counted, and pings are
answered in the name of its peers. Gives up when nothing more is heard. Prints a line for each attack,
and how many datagrams in all."""
import collections
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
PING = 3
FRAMES = (1, 5, 6)
HELLO = 7  # of the link
ATTACKS = ("recorded-datagrams", "long-pings", "short-pings", "unknown-senders", "recorded-hellos",
           "unused-interface")
PONG = 4
PING_BYTES = 40
FIRST_HOST = 66  # of the intruder's addresses
SO_RCVBUFFORCE = 33  # not in Python's socket
BACKLOG = 64 << 20  # bytes: a scan of all ports goes by, and the few hellos must not be lost in it
OWN = b"\x02\0\0\0\0\x66"
ALL = b"\xff" * 6
ARP_REQUEST = bytes.fromhex("08060001080006040001")
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


def readdressed(packet, payload, attack):
    """From the intruder's own address for this attack."""
    head = bytearray(packet[:PAYLOAD])
    head[6:12] = OWN
    head[ETHERNET + 12:ETHERNET + 16] = head[ETHERNET + 16:ETHERNET + 19] + bytes(
        [FIRST_HOST + ATTACKS.index(attack)])
    return datagram(bytes(head), payload)


def is_hello(payload):
    link_kind = DRIVER_HEADER + 3
    return payload[3] & 7 == 1 and len(payload) > link_kind and payload[link_kind] & 15 == HELLO


def elsewhere(packet):
    """What goes from addresses of its own, and by which attack."""
    payload = packet[PAYLOAD:]
    kind = payload[3] & 7
    yield "recorded-datagrams", readdressed(packet, payload, "recorded-datagrams")
    stranger = payload[:3] + b"\x01" + payload[4:SENDER] + random.randbytes(8) + b"x"
    yield "unknown-senders", readdressed(packet, stranger, "unknown-senders")
    if kind == PING:
        forged = bytearray(payload)
        forged[DRIVER_HEADER:DRIVER_HEADER + 8] = random.randbytes(8)
        for one in (payload, bytes(forged)):
            yield "long-pings", readdressed(packet, one, "long-pings")
        short = payload[:28] + struct.pack("<I", PING_BYTES) + payload[32:PING_BYTES]
        yield "short-pings", readdressed(packet, short, "short-pings")
    if is_hello(payload):
        yield "recorded-hellos", readdressed(packet, payload, "recorded-hellos")


class Account:
    """What went out for each attack, and what the node sends back, or wants to."""

    def __init__(self):
        self.sent, self.bytes = collections.Counter(), collections.Counter()
        self.back, self.frames = collections.Counter(), collections.Counter()
        self.hellos = []  # that were heard: few
        self.peers = {}  # numbers of processes, by their low halves

    def goes(self, attack, packet):
        self.sent[attack] += 1
        self.bytes[attack] += len(packet) - PAYLOAD

    def comes(self, packet):
        """Of the node's. Returns an answer to it, or nothing."""
        if packet[12:22] == ARP_REQUEST and FIRST_HOST <= packet[41] < FIRST_HOST + len(ATTACKS):
            return (packet[6:12] + OWN + packet[12:21] + b"\x02" + OWN + packet[38:42] +
                    packet[22:32])
        if packet[12:14] != b"\x08\x00" or packet[0:6] != OWN or len(packet) < PAYLOAD:
            return None
        attack = ATTACKS[(packet[33] - FIRST_HOST) % len(ATTACKS)]
        self.back[attack] += len(packet) - PAYLOAD
        payload = packet[PAYLOAD:]
        if payload[:2] != MAGIC or len(payload) < PING_BYTES:
            return None
        self.frames[attack] += payload[3] & 7 in FRAMES
        if payload[3] & 7 != PING or payload[4:8] not in self.peers:
            return None
        pong = (payload[:3] + bytes([PONG]) + payload[8:12] + self.peers[payload[4:8]] + payload[16:25] +
                bytes(3) + struct.pack("<I", len(payload)) + payload[32:PING_BYTES])
        back = bytearray(packet[6:12] + OWN + packet[12:PAYLOAD])
        back[26:30], back[30:34] = packet[30:34], packet[26:30]
        back[34:36], back[36:38] = packet[36:38], packet[34:36]
        return datagram(bytes(back), pong)

    def print(self):
        for attack in ATTACKS:
            print(f"{attack}: {self.sent[attack]} datagrams of {self.bytes[attack]} bytes, "
                  f"{self.back[attack]} bytes came back, {self.frames[attack]} frames, "
                  f"{'at most' if self.back[attack] <= 3 * self.bytes[attack] else 'more than'} 3 times")


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


def to_other(packet):
    """The same to the second cable: all that is known of the node there is its address."""
    head = bytearray(packet[:PAYLOAD])
    head[0:6] = ALL
    head[ETHERNET + 14] += 1  # 10.77.0.2 becomes 10.77.1.2
    head[ETHERNET + 15] = FIRST_HOST + ATTACKS.index("unused-interface")
    head[ETHERNET + 18] += 1
    return datagram(bytes(head), packet[PAYLOAD:])


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


def hear(wire, heard, account):
    """Takes what came next; true if it is added to what can be sent on. BlockingIOError: nothing came."""
    packet, address = wire.recvfrom(65536)
    to_node = address[2] == socket.PACKET_OUTGOING
    if not to_node:
        answer = account.comes(packet)
        if answer:
            wire.send(answer)
    if not (to_node and packet[6:12] != OWN and packet[PAYLOAD:PAYLOAD + 2] == MAGIC and packet[23] == 17 and
            packet[12:14] == b"\x08\x00" and len(packet) <= LONGEST):
        return False
    heard.append(packet)
    number = packet[PAYLOAD + SENDER:PAYLOAD + DRIVER_HEADER]
    if number[:4] not in account.peers and len(account.peers) < KEPT:
        account.peers[number[:4]] = number
    if is_hello(packet[PAYLOAD:]):
        account.hellos.append(packet)
    if len(heard) > KEPT:
        heard.pop(random.randrange(KEPT))
    return True


def main():
    device, count = sys.argv[1], int(sys.argv[2])
    other = sys.argv[3] if len(sys.argv) > 3 else None
    heard, stock, sent, account = [], [], 0, Account()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire, \
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as unused:
        wire.bind((device, 0))
        wire.setblocking(False)
        wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BACKLOG)
        if other:
            unused.bind((other, 0))
        unused.setblocking(False)
        print("listening", flush=True)
        quiet, last = 0, time.monotonic()
        while sent < count and quiet < QUIET:
            now = time.monotonic()
            quiet += min(now - last, 0.1)  # all may have been stopped for a while
            last = now
            try:
                for _ in range(20):
                    while not hear(wire, heard, account):
                        pass
                    quiet = 0
            except BlockingIOError:
                pass
            try:
                while other:
                    packet, address = unused.recvfrom(65536)
                    if address[2] != socket.PACKET_OUTGOING:
                        answer = account.comes(packet)
                        if answer:
                            unused.send(answer)
            except BlockingIOError:
                pass
            if len(heard) < 2:
                continue
            new = list(variants(*random.sample(heard, 2)))
            stock.extend(new)
            del stock[:-STOCK]
            own = [one for packet in (heard[-1], random.choice(heard), *account.hellos[-1:])
                   for one in elsewhere(packet)]
            if other:
                own += [("unused-interface", to_other(one)) for attack, one in own if attack == "long-pings"]
            for attack, variant in own:
                account.goes(attack, variant)
            for attack, variant in own + [("", one) for one in new + random.sample(stock, len(new))]:
                try:
                    (unused if attack == "unused-interface" else wire).send(variant)
                    sent += 1
                except OSError:
                    pass  # no room at the device
    account.print()
    print(f"{sent} datagrams of an intruder")


main()
