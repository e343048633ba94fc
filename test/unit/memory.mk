# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/memory_api_test
TESTS += test/unit/memory_api_test
test_unit_memory_api_test_SOURCES = test/unit/memory_api_test.c
test_unit_memory_api_test_LDADD = libtorii.la
if HAVE_GTEST
check_PROGRAMS += test/unit/exports_test test/unit/exports_now_test test/unit/exports_locked_test \
	test/unit/exports_posted_test
TESTS += test/unit/exports_test test/unit/exports_now_test test/unit/exports_locked_test \
	test/unit/exports_posted_test
test_unit_exports_test_SOURCES = test/unit/exports_test.cc test/unit/exports_kit.h test/world.h
test_unit_exports_now_test_SOURCES = test/unit/exports_now_test.cc test/unit/exports_kit.h \
	test/world.h
test_unit_exports_now_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_exports_now_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_exports_now_test_LDADD = $(TEST_LIBS)
test_unit_exports_locked_test_SOURCES = test/unit/exports_locked_test.cc test/unit/exports_kit.h \
	test/world.h
test_unit_exports_locked_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_exports_locked_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_exports_locked_test_LDADD = $(TEST_LIBS)
test_unit_exports_posted_test_SOURCES = test/unit/exports_posted_test.cc test/unit/exports_kit.h \
	test/world.h
test_unit_exports_posted_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_exports_posted_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_exports_posted_test_LDADD = $(TEST_LIBS)
test_unit_exports_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_exports_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_exports_test_LDADD = $(TEST_LIBS)
endif
