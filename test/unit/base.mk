# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_PROGRAMS += test/unit/copy_test test/unit/log_test test/unit/param_test test/unit/tune_file_test
test_unit_copy_test_SOURCES = test/unit/copy_test.cc
test_unit_copy_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_copy_test_LDADD = $(TEST_LIBS)
test_unit_log_test_SOURCES = test/unit/log_test.cc
test_unit_log_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_log_test_LDADD = $(TEST_LIBS)
test_unit_param_test_SOURCES = test/unit/param_test.cc
test_unit_param_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_param_test_LDADD = $(TEST_LIBS)
test_unit_tune_file_test_SOURCES = test/unit/tune_file_test.cc
test_unit_tune_file_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_tune_file_test_LDADD = $(TEST_LIBS)
TESTS += test/unit/copy_test test/unit/log_test test/unit/param_test test/unit/tune_file_test
endif
