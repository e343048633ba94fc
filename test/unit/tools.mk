# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/unit/tool_kit.sh
dist_check_SCRIPTS += test/unit/torii_env.sh test/unit/torii_info.sh test/unit/torii_tune.sh
TESTS += test/unit/torii_env.sh test/unit/torii_info.sh test/unit/torii_tune.sh
if HAVE_GTEST
check_PROGRAMS += test/unit/table_test test/unit/tune_choice_test test/unit/tune_output_test
test_unit_table_test_SOURCES = test/unit/table_test.cc src/core/tools/table.cc
test_unit_table_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_table_test_LDADD = $(TEST_LIBS)
test_unit_tune_choice_test_SOURCES = test/unit/tune_choice_test.cc src/core/tools/tune_choice.cc
test_unit_tune_choice_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_tune_choice_test_LDADD = $(TEST_LIBS)
test_unit_tune_output_test_SOURCES = test/unit/tune_output_test.cc $(measuring_sources) \
	src/core/tools/table.cc src/core/tools/tune_choice.cc src/core/tools/tune_output.cc \
	src/core/tools/tune_rounds.cc
test_unit_tune_output_test_CPPFLAGS = $(TEST_CPPFLAGS) $(HWLOC_CFLAGS)
test_unit_tune_output_test_LDADD = $(TEST_LIBS) $(HWLOC_LIBS)
TESTS += test/unit/table_test test/unit/tune_choice_test test/unit/tune_output_test
endif
