# SPDX-License-Identifier: BSD-3-Clause
mpi_tests = \
	test/mpi/accumulates.c \
	test/mpi/allocmem.c \
	test/mpi/broadcasts.c \
	test/mpi/btl_dump.c \
	test/mpi/bypass.c \
	test/mpi/check.h \
	test/mpi/collective_kinds.c \
	test/mpi/collectives.c \
	test/mpi/communicators.c \
	test/mpi/conjugate_gradient.c \
	test/mpi/counters.c \
	test/mpi/datatypes.c \
	test/mpi/errors.c \
	test/mpi/faults.c \
	test/mpi/intercomm.c \
	test/mpi/large.c \
	test/mpi/modes.c \
	test/mpi/onesided.c \
	test/mpi/order.c \
	test/mpi/pingpong.c \
	test/mpi/probe.c \
	test/mpi/queues.c \
	test/mpi/refuse.c \
	test/mpi/requests.c \
	test/mpi/reuse.c \
	test/mpi/self.c \
	test/mpi/spawn.c \
	test/mpi/threads.c \
	test/mpi/turns.c \
	test/mpi/waiting.c
EXTRA_DIST += $(mpi_tests) test/mpi/choice.sh test/mpi/common.sh test/mpi/compile-5.0 test/mpi/emulated.sh test/mpi/mpi4py_programs.py \
	test/mpi/programs \
	test/mpi/mpich_source.sh test/mpi/pt2pt-suite test/mpi/run test/mpi/suite-link
if HAVE_OPENMPI
# The MPI-level tests take minutes; they are no part of make check.
.PHONY: check-mpi
check-mpi: libtorii.la mca_mtl_torii.la
	$(srcdir)/test/mpi/run --components $(abs_top_builddir)/.libs
endif
