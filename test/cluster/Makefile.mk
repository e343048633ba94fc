# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/cluster/group_frames
EXTRA_DIST += test/cluster/README.md test/cluster/agent test/cluster/bulk.c test/cluster/check.sh test/cluster/ciphers.sh test/cluster/cluster test/cluster/collectives.sh test/cluster/compare test/cluster/containers.sh \
	test/cluster/delays.c test/cluster/echo.py test/cluster/exchange.c test/cluster/groups.sh test/cluster/intruder.py test/cluster/linux.py test/cluster/listener.py \
	test/cluster/mtus.sh test/cluster/multicast.c test/cluster/multicast.sh test/cluster/nodes.py test/cluster/nodes.sh test/cluster/portals.sh test/cluster/rails.sh test/cluster/run \
	test/cluster/scan.py test/cluster/session.py test/cluster/silence.c test/cluster/slurm.sh test/cluster/strangers.sh test/cluster/ucx.sh test/cluster/ucx_suites.sh test/cluster/where.c
