# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_PROGRAMS += test/unit/protocol_test test/unit/protocol_asked_test \
	test/unit/protocol_memory_test test/unit/protocol_long_test
test_unit_protocol_test_SOURCES = test/unit/protocol_test.cc test/unit/protocol_kit.h \
	test/fake_driver.h
test_unit_protocol_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_protocol_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_protocol_test_LDADD = $(TEST_LIBS)
test_unit_protocol_asked_test_SOURCES = test/unit/protocol_asked_test.cc \
	test/unit/protocol_kit.h test/fake_driver.h
test_unit_protocol_asked_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_protocol_asked_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_protocol_asked_test_LDADD = $(TEST_LIBS)
test_unit_protocol_memory_test_SOURCES = test/unit/protocol_memory_test.cc \
	test/unit/protocol_kit.h test/fake_driver.h
test_unit_protocol_memory_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_protocol_memory_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_protocol_memory_test_LDADD = $(TEST_LIBS)
test_unit_protocol_long_test_SOURCES = test/unit/protocol_long_test.cc \
	test/unit/protocol_kit.h test/fake_driver.h
test_unit_protocol_long_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_protocol_long_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_protocol_long_test_LDADD = $(TEST_LIBS)
TESTS += test/unit/protocol_test test/unit/protocol_asked_test test/unit/protocol_memory_test \
	test/unit/protocol_long_test
endif
