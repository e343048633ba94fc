# SPDX-License-Identifier: BSD-3-Clause
# group_traffic.cc is a part of test/unit/ports_tests.
sim_programs =
if !SANITIZED
sim_programs += test/sim/peers_memory
endif
sim_programs += test/sim/portals_model
check_PROGRAMS += $(sim_programs)
test_programs += $(sim_programs)
plain_programs += $(sim_programs)
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
