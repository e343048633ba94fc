# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/mpich/errors test/mpich/expected test/mpich/hello.c test/mpich/peer_dies.c test/mpich/port.c test/mpich/quick test/mpich/run
