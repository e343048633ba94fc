# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/rdma/README.md test/rdma/guests.sh test/rdma/init.c test/rdma/initramfs test/rdma/inside.sh test/rdma/remote \
	test/rdma/run
