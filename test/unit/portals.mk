# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
portals_tests = \
	test/unit/portals_arguments_test \
	test/unit/portals_behaviour_test \
	test/unit/portals_conformance_test \
	test/unit/portals_events_test \
	test/unit/portals_matching_test \
	test/unit/portals_pressure_test \
	test/unit/portals_threads_test
check_PROGRAMS += $(portals_tests)
TESTS += $(portals_tests)
test_unit_portals_arguments_test_SOURCES = test/unit/portals_arguments_test.cc test/unit/portals_kit.h
test_unit_portals_arguments_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_portals_arguments_test_LDADD = $(TEST_LIBS)
test_unit_portals_behaviour_test_SOURCES = test/unit/portals_behaviour_test.cc test/unit/portals_kit.h
test_unit_portals_behaviour_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_portals_behaviour_test_LDADD = $(TEST_LIBS)
test_unit_portals_conformance_test_SOURCES = test/unit/portals_conformance_test.cc test/unit/portals_kit.h
test_unit_portals_conformance_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_portals_conformance_test_LDADD = $(TEST_LIBS)
test_unit_portals_events_test_SOURCES = test/unit/portals_events_test.cc test/unit/portals_kit.h
test_unit_portals_events_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_portals_events_test_LDADD = $(TEST_LIBS)
test_unit_portals_pressure_test_SOURCES = test/unit/portals_pressure_test.cc test/unit/portals_kit.h
test_unit_portals_pressure_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_portals_pressure_test_LDADD = $(TEST_LIBS)
test_unit_portals_matching_test_SOURCES = test/unit/portals_matching_test.cc test/unit/portals_kit.h
test_unit_portals_matching_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_portals_matching_test_LDADD = $(TEST_LIBS)
test_unit_portals_threads_test_SOURCES = test/unit/portals_threads_test.cc test/unit/portals_kit.h
test_unit_portals_threads_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_portals_threads_test_LDADD = $(TEST_LIBS)
endif
