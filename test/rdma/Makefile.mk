# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/rdma/README.md test/rdma/guest.sh test/rdma/init test/rdma/initramfs.py test/rdma/run
