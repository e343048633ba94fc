# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
KIT_SOURCES = \
	test/conformance/cases_atomic.cc \
	test/conformance/cases_frames.cc \
	test/conformance/cases_optional.cc \
	test/conformance/cases_peers.cc \
	test/conformance/kit.cc \
	test/conformance/kit.h

check_PROGRAMS += test/conformance/torii-conformance test/conformance/kit_test
test_conformance_torii_conformance_SOURCES = $(KIT_SOURCES) test/conformance/main.cc \
	test/conformance/rigs.cc
test_conformance_torii_conformance_CPPFLAGS = $(TEST_CPPFLAGS)
test_conformance_torii_conformance_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_conformance_torii_conformance_LDADD = libtorii_internal.la $(GTEST_LIBS) -lpthread -ldl
test_conformance_kit_test_SOURCES = $(KIT_SOURCES) test/conformance/kit_test.cc \
	test/conformance/liars.h \
	test/conformance/matrix_test.cc
test_conformance_kit_test_CPPFLAGS = $(TEST_CPPFLAGS) -DTORII_SRCDIR='"$(abs_top_srcdir)"'
test_conformance_kit_test_CXXFLAGS = $(AM_CXXFLAGS) -fno-rtti
test_conformance_kit_test_LDADD = $(TEST_LIBS)
TESTS += test/conformance/torii-conformance test/conformance/kit_test
endif
