# SPDX-License-Identifier: BSD-3-Clause
dist_check_SCRIPTS += test/unit/torii_env.sh test/unit/torii_info.sh
TESTS += test/unit/torii_env.sh test/unit/torii_info.sh
if HAVE_GTEST
check_PROGRAMS += test/unit/table_test
test_unit_table_test_SOURCES = test/unit/table_test.cc src/core/tools/table.cc
test_unit_table_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_table_test_LDADD = $(TEST_LIBS)
TESTS += test/unit/table_test
endif
