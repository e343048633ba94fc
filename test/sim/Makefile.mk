# SPDX-License-Identifier: BSD-3-Clause
if !SANITIZED
check_PROGRAMS += test/sim/peers_memory
test_sim_peers_memory_SOURCES = test/sim/peers_memory.cc
test_sim_peers_memory_LDADD = libtorii_internal.la -lpthread -ldl
TESTS += test/sim/peers_memory
endif
include test/sim/portals_model.mk
include test/sim/group_traffic.mk
