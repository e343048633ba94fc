# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/mpich/expected test/mpich/quick test/mpich/run
