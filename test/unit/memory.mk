# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/memory_api_test
TESTS += test/unit/memory_api_test
test_unit_memory_api_test_SOURCES = test/unit/memory_api_test.c
test_unit_memory_api_test_LDADD = libtorii.la
