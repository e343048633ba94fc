# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += \
	.ci/run \
	contrib/CONTRIBUTING.md \
	contrib/README.md \
	contrib/check \
	contrib/check-parts.sh \
	contrib/check-tree \
	contrib/common.sh \
	contrib/compare \
	contrib/debian-package \
	contrib/debian/changelog \
	contrib/debian/control \
	contrib/debian/copyright \
	contrib/debian/libtorii-dev.examples \
	contrib/debian/libtorii-dev.install \
	contrib/debian/libtorii0.install \
	contrib/debian/mpirun \
	contrib/debian/mpirun.postrm \
	contrib/debian/mpirun.preinst \
	contrib/debian/not-installed \
	contrib/debian/rules \
	contrib/debian/source/format \
	contrib/debian/torii-tools.docs \
	contrib/debian/torii-tools.install \
	contrib/join \
	contrib/mpich/torii-netmod \
	contrib/new-card \
	contrib/rpm-package \
	contrib/rpm/torii.spec \
	contrib/setup \
	contrib/spack/spack_repo/torii/packages/torii/package.py \
	contrib/spack/spack_repo/torii/repo.yaml \
	contrib/system \
	src/README.md \
	src/core/README.md
dist_examples_DATA = \
	contrib/examples/Makefile \
	contrib/examples/portals_get.c \
	contrib/examples/portals_ring.c \
	contrib/examples/portals_server.c \
	contrib/examples/torii_pair.c
