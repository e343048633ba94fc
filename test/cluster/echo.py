# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""echo.py ADDRESS: asks node n2 at this address by UDP and prints its answer. The answering end is
started for the occasion. A datagram may be lost, so it asks some times."""
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
PORT = 4777
TRIES = 9
PATIENCE_SECONDS = 0.5


def answer(kind, address):
    with socket.socket(kind, socket.SOCK_DGRAM) as server:
        server.settimeout(5)
        server.bind((address, PORT))
        print("ready", flush=True)
        while True:
            try:
                words, client = server.recvfrom(100)
            except TimeoutError:
                return
            server.sendto(words + f" asks {socket.gethostname()} at {address}".encode(), client)
            server.settimeout(2 * PATIENCE_SECONDS)


def ask(kind, address):
    with socket.socket(kind, socket.SOCK_DGRAM) as client:
        client.settimeout(PATIENCE_SECONDS)
        for _ in range(TRIES):
            client.sendto(socket.gethostname().encode(), (address, PORT))
            try:
                return client.recv(100).decode()
            except TimeoutError:
                pass
    sys.exit(f"no answer from {address}")


def main():
    address = sys.argv[1]
    kind = socket.AF_INET6 if ":" in address else socket.AF_INET
    if len(sys.argv) > 2:
        return answer(kind, address)
    command = [os.path.join(HERE, "agent"), "n2", sys.executable, __file__, address, "answer"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        print(ask(kind, address))


main()
