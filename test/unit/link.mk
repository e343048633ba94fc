# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_PROGRAMS += test/unit/link_ack_test test/unit/link_long_test test/unit/link_parts_test test/unit/link_peers_test test/unit/link_rails_test test/unit/link_test
test_unit_link_parts_test_SOURCES = test/unit/link_parts_test.cc test/unit/link_kit.h
test_unit_link_parts_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_link_parts_test_LDADD = $(TEST_LIBS)
test_unit_link_test_SOURCES = test/unit/link_test.cc test/unit/link_fixture.h test/unit/link_kit.h test/recorder.h
test_unit_link_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_link_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_link_test_LDADD = $(TEST_LIBS)
test_unit_link_peers_test_SOURCES = test/unit/link_peers_test.cc test/unit/link_fixture.h test/unit/link_kit.h test/recorder.h
test_unit_link_peers_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_link_peers_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_link_peers_test_LDADD = $(TEST_LIBS)
test_unit_link_ack_test_SOURCES = test/unit/link_ack_test.cc test/unit/link_fixture.h test/unit/link_kit.h test/recorder.h
test_unit_link_ack_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_link_ack_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_link_ack_test_LDADD = $(TEST_LIBS)
test_unit_link_rails_test_SOURCES = test/unit/link_rails_test.cc test/unit/link_fixture.h test/unit/link_kit.h test/recorder.h
test_unit_link_rails_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_link_rails_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_link_rails_test_LDADD = $(TEST_LIBS)
test_unit_link_long_test_SOURCES = test/unit/link_long_test.cc test/unit/link_fixture.h test/unit/link_kit.h test/recorder.h
test_unit_link_long_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_link_long_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_link_long_test_LDADD = $(TEST_LIBS)
TESTS += test/unit/link_ack_test test/unit/link_long_test test/unit/link_parts_test test/unit/link_peers_test test/unit/link_rails_test test/unit/link_test
endif
