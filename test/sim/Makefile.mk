# SPDX-License-Identifier: BSD-3-Clause
# group_traffic.cc is a part of test/unit/ports_tests.
if !SANITIZED
check_PROGRAMS += test/sim/peers_memory
test_programs += test/sim/peers_memory
plain_programs += test/sim/peers_memory
test_sim_peers_memory_SOURCES = test/sim/peers_memory.cc
test_sim_peers_memory_LDADD = libtorii_internal.la -lpthread -ldl
endif
check_PROGRAMS += test/sim/portals_model
test_programs += test/sim/portals_model
plain_programs += test/sim/portals_model
test_sim_portals_model_SOURCES = \
	test/sim/portals_model.cc \
	test/sim/portals_model.h \
	test/sim/portals_model_events.cc \
	test/sim/portals_model_main.cc \
	test/sim/portals_model_target.cc \
	test/sim/portals_model_traffic.cc \
	test/sim/portals_model_traffic.h \
	test/sim/portals_model_world.cc \
	test/sim/portals_model_world.h
test_sim_portals_model_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test
test_sim_portals_model_LDADD = libtorii_internal.la -lpthread -ldl
