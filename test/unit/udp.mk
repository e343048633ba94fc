# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_PROGRAMS += test/unit/udp_test test/unit/udp_paths_test test/unit/udp_wire_test
test_unit_udp_test_SOURCES = test/unit/udp_test.cc test/recorder.h test/unit/udp_ends.h \
	test/unit/udp_kit.h
test_unit_udp_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_udp_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_udp_test_LDADD = $(TEST_LIBS)
test_unit_udp_paths_test_SOURCES = test/unit/udp_paths_test.cc test/recorder.h \
	test/unit/udp_ends.h test/unit/udp_kit.h
test_unit_udp_paths_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_udp_paths_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_udp_paths_test_LDADD = $(TEST_LIBS)
test_unit_udp_wire_test_SOURCES = test/unit/udp_wire_test.cc test/unit/udp_kit.h
test_unit_udp_wire_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_udp_wire_test_LDADD = $(TEST_LIBS)
TESTS += test/unit/udp_test test/unit/udp_paths_test test/unit/udp_wire_test
endif
