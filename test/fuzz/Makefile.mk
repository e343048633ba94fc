# SPDX-License-Identifier: BSD-3-Clause
# Targets for libFuzzer. With the sanitizers of clang:
#   CC=clang CXX=clang++ ./configure --with-sanitizer=address,undefined --enable-fuzzers
# test/fuzz/run does all of it.
EXTRA_DIST += test/fuzz/README.md test/fuzz/below.h test/fuzz/calling.h test/fuzz/input.h test/fuzz/world.h
dist_check_SCRIPTS += test/fuzz/run
if FUZZERS
fuzz_programs = \
	test/fuzz/address_fuzz \
	test/fuzz/attach_fuzz \
	test/fuzz/card_fuzz \
	test/fuzz/group_fuzz \
	test/fuzz/hub_fuzz \
	test/fuzz/link_fuzz \
	test/fuzz/multicast_fuzz \
	test/fuzz/param_fuzz \
	test/fuzz/protocol_fuzz \
	test/fuzz/segment_fuzz \
	test/fuzz/shm_fuzz \
	test/fuzz/team_fuzz \
	test/fuzz/tune_fuzz \
	test/fuzz/ucx_fuzz \
	test/fuzz/udp_fuzz \
	test/fuzz/wire_fuzz
check_PROGRAMS += test/fuzz/seeds $(fuzz_programs)
$(call objects_of,$(fuzz_programs)): AM_CXXFLAGS += $(COVERAGE_FLAGS) -fno-rtti
$(fuzz_programs): private AM_LDFLAGS = -fsanitize=fuzzer,address,undefined
test_fuzz_card_fuzz_LDADD = libtorii_nic.la $(LDADD)
test_fuzz_hub_fuzz_LDADD = libtorii_nic.la $(LDADD)
test_fuzz_protocol_fuzz_SOURCES = test/fuzz/protocol_fuzz.cc test/fuzz/world.cc test/fuzz/world_memory.cc \
	test/fuzz/world_user.cc
endif
