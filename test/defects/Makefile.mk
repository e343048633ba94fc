# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/defects/README.md test/defects/run \
	test/defects/boot.patch test/defects/btl.patch test/defects/credit.patch \
	test/defects/group.patch test/defects/guard.patch test/defects/link.patch \
	test/defects/matching.patch test/defects/mtl.patch test/defects/netmod.patch \
	test/defects/rendezvous.patch test/defects/shm-ring.patch test/defects/udp-parse.patch test/defects/udp-paths.patch
