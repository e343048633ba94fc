# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_PROGRAMS += test/unit/shm_ask_lies_test test/unit/shm_ask_many_test test/unit/shm_ask_test \
	test/unit/shm_direct_test \
	test/unit/shm_gather_test test/unit/shm_guard_test test/unit/shm_handover_test test/unit/shm_ring_test \
	test/unit/shm_split_test test/unit/shm_stores_test test/unit/shm_test test/unit/switch_points_test
test_unit_shm_ask_test_SOURCES = test/unit/shm_ask_test.cc test/unit/shm_ask_kit.h \
  test/unit/shm_kit.h test/recorder.h
test_unit_shm_ask_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_ask_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_shm_ask_test_LDADD = $(TEST_LIBS)
test_unit_shm_ask_lies_test_SOURCES = test/unit/shm_ask_lies_test.cc test/unit/shm_ask_kit.h \
  test/unit/shm_kit.h test/recorder.h
test_unit_shm_ask_lies_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_ask_lies_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_shm_ask_lies_test_LDADD = $(TEST_LIBS)
test_unit_shm_ask_many_test_SOURCES = test/unit/shm_ask_many_test.cc test/unit/shm_ask_kit.h \
  test/unit/shm_kit.h test/recorder.h
test_unit_shm_ask_many_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_ask_many_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_shm_ask_many_test_LDADD = $(TEST_LIBS)
test_unit_shm_gather_test_SOURCES = test/unit/shm_gather_test.cc test/unit/shm_kit.h test/recorder.h
test_unit_shm_gather_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_gather_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_shm_gather_test_LDADD = $(TEST_LIBS)
test_unit_shm_guard_test_SOURCES = test/unit/shm_guard_test.cc test/unit/shm_kit.h test/recorder.h
test_unit_shm_guard_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_guard_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_shm_guard_test_LDADD = $(TEST_LIBS)
test_unit_shm_direct_test_SOURCES = test/unit/shm_direct_test.cc test/unit/shm_kit.h test/recorder.h
test_unit_shm_direct_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_direct_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_shm_direct_test_LDADD = $(TEST_LIBS)
test_unit_shm_handover_test_SOURCES = test/unit/shm_handover_test.cc test/unit/shm_kit.h \
	test/recorder.h
test_unit_shm_handover_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_handover_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_shm_handover_test_LDADD = $(TEST_LIBS)
test_unit_shm_test_SOURCES = test/unit/shm_test.cc test/unit/shm_kit.h test/recorder.h
test_unit_shm_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_shm_test_LDADD = $(TEST_LIBS)
test_unit_shm_ring_test_SOURCES = test/unit/shm_ring_test.cc
test_unit_shm_ring_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_ring_test_LDADD = $(TEST_LIBS)
test_unit_shm_split_test_SOURCES = test/unit/shm_split_test.cc test/unit/shm_kit.h test/recorder.h
test_unit_shm_split_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_split_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_unit_shm_split_test_LDADD = $(TEST_LIBS)
test_unit_shm_stores_test_SOURCES = test/unit/shm_stores_test.cc
test_unit_shm_stores_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_stores_test_LDADD = $(TEST_LIBS)
test_unit_switch_points_test_SOURCES = test/unit/switch_points_test.cc
test_unit_switch_points_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_switch_points_test_LDADD = $(TEST_LIBS)
TESTS += test/unit/shm_ask_lies_test test/unit/shm_ask_many_test test/unit/shm_ask_test \
	test/unit/shm_direct_test \
	test/unit/shm_gather_test test/unit/shm_guard_test test/unit/shm_handover_test test/unit/shm_ring_test \
	test/unit/shm_split_test test/unit/shm_stores_test test/unit/shm_test test/unit/switch_points_test
endif
