# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/unit/check_kit.h
dist_check_SCRIPTS += test/unit/torii_check.sh
TESTS += test/unit/torii_check.sh
if HAVE_GTEST
check_PROGRAMS += test/unit/check_test test/unit/check_verdict_test
test_unit_check_test_SOURCES = test/unit/check_test.cc $(check_sources) \
	src/core/tools/check_hosts.cc src/core/tools/check_prober.cc
test_unit_check_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_check_test_LDADD = $(TEST_LIBS)
test_unit_check_verdict_test_SOURCES = test/unit/check_verdict_test.cc $(check_sources)
test_unit_check_verdict_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_check_verdict_test_LDADD = $(TEST_LIBS)
TESTS += test/unit/check_test test/unit/check_verdict_test
endif
