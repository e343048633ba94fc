# SPDX-License-Identifier: BSD-3-Clause
# Programs for an MPI library are compiled by the scripts that run them, with its own compiler.
EXTRA_DIST += test/bench/compare.py test/bench/mpi_pingpong.c
