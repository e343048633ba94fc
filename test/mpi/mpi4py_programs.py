# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""The kinds of programs that mpi4py's documentation shows: Python objects and buffers from point
to point, collectives, a parallel matrix product, a fractal, and processes made at run time.
Each checks itself; rank 0 prints its results, which depend on the number of ranks only."""

import array
import os
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
rank = world.Get_rank()
size = world.Get_size()


def say(*words):
    if rank == 0:
        print(*words, flush=True)


def objects():
    data = {"key": [7, 2.72, 2 + 3j], "words": ("abc", "xyz"), "from": rank}
    right, left = (rank + 1) % size, (rank - 1) % size
    request = world.isend(data, dest=right, tag=11)
    got = world.recv(source=left, tag=11)
    request.wait()
    assert got["from"] == left and got["words"] == ("abc", "xyz"), got
    big = list(range(200000))
    request = world.isend(big, dest=right, tag=12)
    matched = world.mprobe(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
    assert matched.recv() == big
    request.wait()
    say("objects", sorted(got))


def buffers():
    right, left = (rank + 1) % size, (rank - 1) % size
    total = 0.0
    for length in (1, 10, 1000, 100000):
        out = array.array("d", (rank * 1000.0 + i for i in range(length)))
        into = array.array("d", bytes(8 * length))
        request = world.Irecv([into, MPI.DOUBLE], source=left, tag=77)
        world.Send([out, MPI.DOUBLE], dest=right, tag=77)
        status = MPI.Status()
        request.Wait(status)
        assert status.Get_source() == left and status.Get_count(MPI.DOUBLE) == length
        assert all(into[i] == left * 1000.0 + i for i in range(length))
        total += sum(into)
    say("buffers", world.reduce(total, op=MPI.SUM, root=0))


def collectives():
    data = {"a": [1, 2.5], "b": ("x", rank)} if rank == 0 else None
    data = world.bcast(data, root=0)
    assert data == {"a": [1, 2.5], "b": ("x", 0)}
    part = world.scatter([(i + 1) ** 2 for i in range(size)] if rank == 0 else None, root=0)
    assert part == (rank + 1) ** 2
    squares = world.gather(part, root=0)
    everything = world.alltoall([rank * 100 + i for i in range(size)])
    assert everything == [i * 100 + rank for i in range(size)]
    low, where = world.allreduce((abs(rank - size // 2), rank), op=MPI.MINLOC)
    say("collectives", squares, world.scan(rank), low, where)


def matrix_vector():
    rows = 20
    order = rows * size
    matrix = [[((rank * rows + i) * 31 + j * 17) % 23 / 8.0 for j in range(order)] for i in range(rows)]
    vector = array.array("d", (float(rank * rows + i) for i in range(rows)))
    for _ in range(5):
        whole = array.array("d", bytes(8 * order))
        world.Allgather([vector, MPI.DOUBLE], [whole, MPI.DOUBLE])
        vector = array.array("d", (sum(a * b for a, b in zip(row, whole)) for row in matrix))
        largest = world.allreduce(max(vector), op=MPI.MAX)
        vector = array.array("d", (v / largest for v in vector))
    result = world.gather(list(vector), root=0)
    if rank == 0:
        say("matrix_vector", " ".join(repr(v) for part in result for v in part[:3]))


def fractal():
    width, height, limit = 60, 42, 80

    def escape(x, y):
        c, z, n = complex(x, y), 0j, 0
        while abs(z) < 2 and n < limit:
            z, n = z * z + c, n + 1
        return n

    mine = {row: [escape(-2 + 3 * i / width, -1.2 + 2.4 * row / height) for i in range(width)]
            for row in range(rank, height, size)}
    image = world.gather(mine, root=0)
    if rank == 0:
        rows = {}
        for part in image:
            rows.update(part)
        assert len(rows) == height
        say("fractal", sum(sum(row) * (number + 1) for number, row in rows.items()))


def spawned_pi():
    workers = 2
    # Open MPI 5.0 does not pass the options of a job to the processes that it makes.
    options = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("OMPI_MCA_")]
    inter = MPI.COMM_WORLD.Spawn("env", args=[*options, sys.executable, __file__, "worker"],
                                 maxprocs=workers)
    root = MPI.ROOT if rank == 0 else MPI.PROC_NULL
    inter.bcast(1000 if rank == 0 else None, root=root)
    value = inter.reduce(None, op=MPI.SUM, root=root)
    inter.Disconnect()
    if rank == 0:
        assert abs(value - 3.14159265) < 1e-5
        say("spawned_pi %.12f" % value)


def worker():
    parent = MPI.Comm.Get_parent()
    steps = parent.bcast(None, root=0)
    width = 1.0 / steps
    mine = sum(4.0 / (1.0 + ((i + 0.5) * width) ** 2) for i in range(rank, steps, size))
    parent.reduce(mine * width, op=MPI.SUM, root=0)
    parent.Disconnect()


if len(sys.argv) > 1:
    worker()
else:
    for program in (objects, buffers, collectives, matrix_vector, fractal, spawned_pi):
        program()
        world.Barrier()
