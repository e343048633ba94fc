# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/bench/queue_depth
test_bench_queue_depth_SOURCES = test/bench/queue_depth.cc
test_bench_queue_depth_LDADD = libtorii_internal.la -lpthread -ldl
