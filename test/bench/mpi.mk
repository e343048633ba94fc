# SPDX-License-Identifier: BSD-3-Clause
# Programs for an MPI library are compiled by the scripts that run them, with its own compiler.
EXTRA_DIST += \
	test/bench/floor.c \
	test/bench/mpi_bench.h \
	test/bench/mpi_collective_sizes.c \
	test/bench/mpi_collectives.c \
	test/bench/mpi_exchange.c \
	test/bench/mpi_instructions.c \
	test/bench/mpi_memory.c \
	test/bench/mpi_onesided.c \
	test/bench/mpi_overlap.c \
	test/bench/mpi_pingpong.c \
	test/bench/mpi_queues.c \
	test/bench/mpi_threads.c \
	test/bench/mpi_waiting.c \
	test/bench/mpi_window.h \
	test/bench/mpi_windows.c \
	test/bench/compare/__main__.py \
	test/bench/compare/applications.py \
	test/bench/compare/collectives.py \
	test/bench/compare/control_group.py \
	test/bench/compare/figure.py \
	test/bench/compare/instructions.py \
	test/bench/compare/one_sided.py \
	test/bench/compare/plots.py \
	test/bench/compare/report.py \
	test/bench/compare/rounds.py \
	test/bench/compare/shortage.py \
	test/bench/compare/transports.py \
	test/bench/compare/two_ranks.py
