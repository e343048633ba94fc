# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
if !SANITIZED
check_PROGRAMS += test/unit/hotpath_test
test_unit_hotpath_test_SOURCES = test/unit/hotpath_test.cc
test_unit_hotpath_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_hotpath_test_LDADD = $(TEST_LIBS)
TESTS += test/unit/hotpath_test
endif
endif
