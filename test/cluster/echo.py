# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""echo.py ADDRESS: asks node n2 at this address by UDP and prints its answer. The answering end is
started for the occasion."""
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
PORT = 4777


def main():
    address = sys.argv[1]
    kind = socket.AF_INET6 if ":" in address else socket.AF_INET
    if len(sys.argv) > 2:  # the answering end
        with socket.socket(kind, socket.SOCK_DGRAM) as server:
            server.settimeout(5)
            server.bind((address, PORT))
            print("ready", flush=True)
            words, client = server.recvfrom(100)
            server.sendto(words + f" asks {socket.gethostname()} at {address}".encode(), client)
        return
    command = [os.path.join(HERE, "agent"), "n2", sys.executable, __file__, address, "answer"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with socket.socket(kind, socket.SOCK_DGRAM) as client:
            client.settimeout(2)
            client.sendto(socket.gethostname().encode(), (address, PORT))
            print(client.recv(100).decode())


main()
