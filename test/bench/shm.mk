# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/bench/shm_pingpong
test_bench_shm_pingpong_SOURCES = test/bench/shm_pingpong.cc
test_bench_shm_pingpong_CPPFLAGS = $(AM_CPPFLAGS)
test_bench_shm_pingpong_LDADD = libtorii_internal.la -lpthread -ldl
