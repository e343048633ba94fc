# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += \
	.ci/run \
	contrib/CONTRIBUTING.md \
	contrib/check \
	contrib/check-parts.sh \
	contrib/check-tree \
	contrib/common.sh \
	contrib/compare \
	contrib/join \
	contrib/mpich/torii-netmod \
	contrib/new-card \
	contrib/setup \
	contrib/system \
	src/README.md \
	src/core/README.md
dist_examples_DATA = \
	contrib/examples/Makefile \
	contrib/examples/portals_get.c \
	contrib/examples/portals_ring.c \
	contrib/examples/portals_server.c \
	contrib/examples/torii_pair.c
