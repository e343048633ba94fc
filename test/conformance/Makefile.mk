# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/conformance/kit.h test/conformance/liars.h test/conformance/rigs_nic.h
if HAVE_GTEST
check_LIBRARIES += test/conformance/libkit.a
test_conformance_libkit_a_SOURCES = \
	test/conformance/cases_atomic.cc \
	test/conformance/cases_frames.cc \
	test/conformance/cases_groups.cc \
	test/conformance/cases_optional.cc \
	test/conformance/cases_peers.cc \
	test/conformance/cases_registered.cc \
	test/conformance/kit.cc

conformance_programs = test/conformance/torii-conformance test/conformance/kit_test
check_PROGRAMS += $(conformance_programs)
gtest_programs += $(conformance_programs)
test_programs += $(conformance_programs)
plain_programs += test/conformance/torii-conformance
threaded_programs += test/conformance/torii-conformance
long_threaded_programs = test/conformance/kit_test
KIT_LIBS = test/conformance/libkit.a $(LDADD)
test_conformance_torii_conformance_SOURCES = test/conformance/main.cc test/conformance/rigs.cc \
	test/conformance/rigs_nic.cc
test_conformance_torii_conformance_LDADD = libtorii_nic.la $(KIT_LIBS)
test_conformance_kit_test_SOURCES = test/conformance/card_misuse_test.cc test/conformance/kit_test.cc \
	test/conformance/matrix_test.cc test/conformance/rigs_nic.cc
test_conformance_kit_test_LDADD = libtorii_nic.la $(KIT_LIBS)
endif
