# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""scan.py ADDRESS...: looks for open ports as scanners do: knocks at all TCP ports, sends nothing,
a zero and a text to all UDP ports. Prints how many ports it tried."""
import socket
import sys

PROBES = [b"", b"\0", b"GET / HTTP/1.0\r\n\r\n"]


def scan(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as udp:
        for port in range(1, 65536):
            for probe in PROBES:
                try:
                    udp.sendto(probe, (address, port))
                except OSError:
                    pass  # somebody has said that the port before is closed
            with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as tcp:
                tcp.connect_ex((address, port))
    return 65535


def main():
    print(f"{sum(scan(address) for address in sys.argv[1:])} ports")


main()
