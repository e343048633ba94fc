# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_PROGRAMS += test/sim/group_traffic
test_sim_group_traffic_SOURCES = test/sim/group_traffic.cc test/party.h test/world.h
test_sim_group_traffic_CPPFLAGS = $(TEST_CPPFLAGS)
test_sim_group_traffic_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_sim_group_traffic_LDADD = $(TEST_LIBS)
TESTS += test/sim/group_traffic
endif
