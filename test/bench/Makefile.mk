# SPDX-License-Identifier: BSD-3-Clause
include test/bench/mpi.mk
include test/bench/shm.mk
include test/bench/queue.mk
include test/bench/multicast.mk
include test/bench/trust.mk
EXTRA_DIST += test/bench/README.md test/bench/multicast_scale.gp
