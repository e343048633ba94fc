# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/conformance/kit.h test/conformance/liars.h
if HAVE_GTEST
check_LIBRARIES += test/conformance/libkit.a
test_conformance_libkit_a_SOURCES = \
	test/conformance/cases_atomic.cc \
	test/conformance/cases_frames.cc \
	test/conformance/cases_optional.cc \
	test/conformance/cases_peers.cc \
	test/conformance/cases_registered.cc \
	test/conformance/kit.cc
test_conformance_libkit_a_CPPFLAGS = $(TEST_CPPFLAGS)
test_conformance_libkit_a_CXXFLAGS = $(TEST_CXXFLAGS)

conformance_programs = test/conformance/torii-conformance test/conformance/kit_test
check_PROGRAMS += $(conformance_programs)
test_programs += $(conformance_programs)
plain_programs += test/conformance/torii-conformance
threaded_programs += test/conformance/torii-conformance
long_threaded_programs = test/conformance/kit_test
test_conformance_torii_conformance_SOURCES = test/conformance/main.cc test/conformance/rigs.cc
test_conformance_torii_conformance_CPPFLAGS = $(TEST_CPPFLAGS)
test_conformance_torii_conformance_CXXFLAGS = $(TEST_CXXFLAGS)
test_conformance_torii_conformance_LDADD = test/conformance/libkit.a $(TEST_LIBS)
test_conformance_kit_test_SOURCES = test/conformance/kit_test.cc test/conformance/matrix_test.cc
test_conformance_kit_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_conformance_kit_test_CXXFLAGS = $(TEST_CXXFLAGS)
test_conformance_kit_test_LDADD = test/conformance/libkit.a $(TEST_LIBS)
$(test_conformance_libkit_a_OBJECTS) $(test_conformance_torii_conformance_OBJECTS) \
$(test_conformance_kit_test_OBJECTS): $(PRECOMPILED_HEADER)
endif
