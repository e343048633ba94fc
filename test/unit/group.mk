# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/group_api_test
TESTS += test/unit/group_api_test
test_unit_group_api_test_SOURCES = test/unit/group_api_test.c
test_unit_group_api_test_LDADD = libtorii.la
if HAVE_GTEST
check_PROGRAMS += test/unit/group_test
TESTS += test/unit/group_test
test_unit_group_test_SOURCES = test/unit/group_test.cc test/party.h test/world.h
test_unit_group_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_group_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_group_test_LDADD = $(TEST_LIBS)
endif
