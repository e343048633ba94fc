# SPDX-License-Identifier: BSD-3-Clause
# Targets for libFuzzer. With the sanitizers of clang:
#   CC=clang CXX=clang++ ./configure --with-sanitizer=address,undefined --enable-fuzzers
# test/fuzz/run does all of it.
EXTRA_DIST += test/fuzz/README.md test/fuzz/input.h test/fuzz/world.h
dist_check_SCRIPTS += test/fuzz/run
if FUZZERS
FUZZ_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test
FUZZ_CXXFLAGS = $(AM_CXXFLAGS) $(COVERAGE_FLAGS) -fno-rtti
FUZZ_LINK = -fsanitize=fuzzer,address,undefined
FUZZ_LIBS = libtorii_internal.la -lpthread -ldl
check_PROGRAMS += \
	test/fuzz/seeds \
	test/fuzz/address_fuzz \
	test/fuzz/link_fuzz \
	test/fuzz/param_fuzz \
	test/fuzz/protocol_fuzz \
	test/fuzz/shm_fuzz \
	test/fuzz/tune_fuzz \
	test/fuzz/udp_fuzz \
	test/fuzz/wire_fuzz
test_fuzz_seeds_SOURCES = test/fuzz/seeds.cc
test_fuzz_seeds_CPPFLAGS = $(FUZZ_CPPFLAGS)
test_fuzz_seeds_LDADD = $(FUZZ_LIBS)
test_fuzz_address_fuzz_SOURCES = test/fuzz/address_fuzz.cc
test_fuzz_address_fuzz_CPPFLAGS = $(FUZZ_CPPFLAGS)
test_fuzz_address_fuzz_CXXFLAGS = $(FUZZ_CXXFLAGS)
test_fuzz_address_fuzz_LDFLAGS = $(FUZZ_LINK)
test_fuzz_address_fuzz_LDADD = $(FUZZ_LIBS)
test_fuzz_link_fuzz_SOURCES = test/fuzz/link_fuzz.cc
test_fuzz_link_fuzz_CPPFLAGS = $(FUZZ_CPPFLAGS)
test_fuzz_link_fuzz_CXXFLAGS = $(FUZZ_CXXFLAGS)
test_fuzz_link_fuzz_LDFLAGS = $(FUZZ_LINK)
test_fuzz_link_fuzz_LDADD = $(FUZZ_LIBS)
test_fuzz_param_fuzz_SOURCES = test/fuzz/param_fuzz.cc
test_fuzz_param_fuzz_CPPFLAGS = $(FUZZ_CPPFLAGS)
test_fuzz_param_fuzz_CXXFLAGS = $(FUZZ_CXXFLAGS)
test_fuzz_param_fuzz_LDFLAGS = $(FUZZ_LINK)
test_fuzz_param_fuzz_LDADD = $(FUZZ_LIBS)
test_fuzz_protocol_fuzz_SOURCES = test/fuzz/protocol_fuzz.cc test/fuzz/world.cc test/fuzz/world_memory.cc \
	test/fuzz/world_user.cc
test_fuzz_protocol_fuzz_CPPFLAGS = $(FUZZ_CPPFLAGS)
test_fuzz_protocol_fuzz_CXXFLAGS = $(FUZZ_CXXFLAGS)
test_fuzz_protocol_fuzz_LDFLAGS = $(FUZZ_LINK)
test_fuzz_protocol_fuzz_LDADD = $(FUZZ_LIBS)
test_fuzz_shm_fuzz_SOURCES = test/fuzz/shm_fuzz.cc
test_fuzz_shm_fuzz_CPPFLAGS = $(FUZZ_CPPFLAGS)
test_fuzz_shm_fuzz_CXXFLAGS = $(FUZZ_CXXFLAGS)
test_fuzz_shm_fuzz_LDFLAGS = $(FUZZ_LINK)
test_fuzz_shm_fuzz_LDADD = $(FUZZ_LIBS)
test_fuzz_tune_fuzz_SOURCES = test/fuzz/tune_fuzz.cc
test_fuzz_tune_fuzz_CPPFLAGS = $(FUZZ_CPPFLAGS)
test_fuzz_tune_fuzz_CXXFLAGS = $(FUZZ_CXXFLAGS)
test_fuzz_tune_fuzz_LDFLAGS = $(FUZZ_LINK)
test_fuzz_tune_fuzz_LDADD = $(FUZZ_LIBS)
test_fuzz_udp_fuzz_SOURCES = test/fuzz/udp_fuzz.cc
test_fuzz_udp_fuzz_CPPFLAGS = $(FUZZ_CPPFLAGS)
test_fuzz_udp_fuzz_CXXFLAGS = $(FUZZ_CXXFLAGS)
test_fuzz_udp_fuzz_LDFLAGS = $(FUZZ_LINK)
test_fuzz_udp_fuzz_LDADD = $(FUZZ_LIBS)
test_fuzz_wire_fuzz_SOURCES = test/fuzz/wire_fuzz.cc
test_fuzz_wire_fuzz_CPPFLAGS = $(FUZZ_CPPFLAGS)
test_fuzz_wire_fuzz_CXXFLAGS = $(FUZZ_CXXFLAGS)
test_fuzz_wire_fuzz_LDFLAGS = $(FUZZ_LINK)
test_fuzz_wire_fuzz_LDADD = $(FUZZ_LIBS)
endif
