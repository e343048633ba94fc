# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_PROGRAMS += test/unit/bypass_test test/unit/match_test test/unit/ni_test test/unit/ports_test \
	test/unit/port_any_source_test test/unit/ports_in_order_test test/unit/posted_test \
	test/unit/progress_test \
	test/unit/together_test test/unit/turns_test test/unit/wait_test test/unit/waiter_turns_test
TESTS += test/unit/bypass_test test/unit/match_test test/unit/ni_test test/unit/ports_test \
	test/unit/port_any_source_test test/unit/ports_in_order_test test/unit/posted_test \
	test/unit/progress_test \
	test/unit/together_test test/unit/turns_test test/unit/wait_test test/unit/waiter_turns_test
test_unit_match_test_SOURCES = test/unit/match_test.cc
test_unit_match_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_match_test_LDADD = $(TEST_LIBS)
test_unit_ni_test_SOURCES = test/unit/ni_test.cc
test_unit_ni_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_ni_test_LDADD = $(TEST_LIBS)
test_unit_together_test_SOURCES = test/unit/together_test.cc
test_unit_together_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_together_test_LDADD = $(TEST_LIBS)
test_unit_waiter_turns_test_SOURCES = test/unit/waiter_turns_test.cc test/unit/waiter_kit.h
test_unit_waiter_turns_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_waiter_turns_test_LDADD = $(TEST_LIBS)
test_unit_turns_test_SOURCES = test/unit/turns_test.cc
test_unit_turns_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_turns_test_LDADD = $(TEST_LIBS)
test_unit_wait_test_SOURCES = test/unit/wait_test.cc test/unit/waiter_kit.h
test_unit_wait_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_wait_test_LDADD = $(TEST_LIBS)
test_unit_ports_test_SOURCES = test/unit/ports_test.cc test/world.h
test_unit_ports_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_ports_test_LDADD = $(TEST_LIBS)
test_unit_port_any_source_test_SOURCES = test/unit/port_any_source_test.cc
test_unit_port_any_source_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_port_any_source_test_LDADD = $(TEST_LIBS)
test_unit_ports_in_order_test_SOURCES = test/unit/ports_in_order_test.cc test/world.h
test_unit_ports_in_order_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_ports_in_order_test_LDADD = $(TEST_LIBS)
test_unit_posted_test_SOURCES = test/unit/posted_test.cc test/world.h
test_unit_posted_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_posted_test_LDADD = $(TEST_LIBS)
test_unit_bypass_test_SOURCES = test/unit/bypass_test.cc test/world.h
test_unit_bypass_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_bypass_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_bypass_test_LDADD = $(TEST_LIBS)
test_unit_progress_test_SOURCES = test/unit/progress_test.cc test/world.h
test_unit_progress_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_progress_test_LDADD = $(TEST_LIBS)
endif
