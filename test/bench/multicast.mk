# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/bench/multicast_scale
