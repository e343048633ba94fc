# SPDX-License-Identifier: BSD-3-Clause
# One program for the tests of one or a few layers. The files that start threads are a program of
# their own, which the thread sanitizer runs. Five want their own process: boot_test starts jobs,
# hotpath_test replaces malloc, link_peers_test measures memory, param_test must be the first to read the parameters,
# ucx_test sees what the process is before UCX is opened.
EXTRA_DIST += \
	test/unit/api/api_kit.h \
	test/unit/boot/boot_launchers.sh \
	test/unit/collective/collective_kit.h \
	test/unit/collective/nodes_kit.h \
	test/unit/link/link_fixture.h \
	test/unit/link/link_kit.h \
	test/unit/memory/exports_kit.h \
	test/unit/ni/waiter_kit.h \
	test/unit/nic/nic_cards.h \
	test/unit/nic/nic_kit.h \
	test/unit/portals/portals_clients.h \
	test/unit/portals/portals_kit.h \
	test/unit/protocol/protocol_kit.h \
	test/unit/multicast/multicast_kit.h \
	test/unit/multicast/multicast_measure.h \
	test/unit/shm/shm_ask_kit.h \
	test/unit/shm/shm_kit.h \
	test/unit/tools/check_kit.h \
	test/unit/tools/tool_kit.sh \
	test/unit/udp/udp_ends.h \
	test/unit/udp/udp_kit.h

if HAVE_GTEST
unit_programs = \
	test/unit/ports_tests \
	test/unit/threads_tests \
	test/unit/waiting_tests \
	test/unit/shm_tests \
	test/unit/collective_tests \
	test/unit/boot_test \
	test/unit/drivers_tests \
	test/unit/link_tests \
	test/unit/link_peers_test \
	test/unit/memory_tests \
	test/unit/multicast_tests \
	test/unit/nic_emulator_test \
	test/unit/nic_tests \
	test/unit/portals_tests \
	test/unit/protocol_tests \
	test/unit/base_tests \
	test/unit/param_test \
	test/unit/tools_tests
plain_programs += test/unit/threads_tests test/unit/waiting_tests test/unit/shm_tests \
	test/unit/nic_emulator_test
if !SANITIZED
unit_programs += test/unit/hotpath_test
plain_programs += test/unit/hotpath_test
if HAVE_UCX
unit_programs += test/unit/ucx_test
plain_programs += test/unit/ucx_test
endif
endif
check_PROGRAMS += $(unit_programs)
gtest_programs += $(unit_programs)
test_programs += $(unit_programs)
threaded_programs += test/unit/threads_tests test/unit/boot_test test/unit/nic_emulator_test

test_unit_base_tests_SOURCES = \
	test/unit/base/buffers_test.cc \
	test/unit/base/copy_test.cc \
	test/unit/base/log_test.cc \
	test/unit/base/tune_file_test.cc \
	test/unit/boot/boot_text_test.cc \
	test/unit/match/match_test.cc
test_unit_boot_test_SOURCES = test/unit/boot/boot_test.cc
test_unit_collective_tests_SOURCES = \
	test/unit/collective/collective_processes_test.cc \
	test/unit/collective/collective_test.cc \
	test/unit/collective/nodes_team_test.cc \
	test/unit/collective/team_segment_test.cc
test_unit_drivers_tests_SOURCES = \
	test/unit/fault/fault_test.cc \
	test/unit/sim/sim_test.cc \
	test/unit/ucx/ucx_wire_test.cc \
	test/unit/udp/udp_paths_test.cc \
	test/unit/udp/udp_sizes_test.cc \
	test/unit/udp/udp_test.cc \
	test/unit/udp/udp_trust_test.cc \
	test/unit/udp/udp_wire_test.cc
test_unit_hotpath_test_SOURCES = test/unit/api/hotpath_test.cc
test_unit_link_tests_SOURCES = \
	test/unit/link/link_ack_test.cc \
	test/unit/link/link_cipher_test.cc \
	test/unit/link/link_group_test.cc \
	test/unit/link/link_life_test.cc \
	test/unit/link/link_long_test.cc \
	test/unit/link/link_parts_test.cc \
	test/unit/link/link_rails_test.cc \
	test/unit/link/link_stuck_test.cc \
	test/unit/link/link_test.cc \
	test/unit/link/link_trust_test.cc \
	test/unit/link/watch_test.cc \
	test/unit/trust/key_pair_test.cc \
	test/unit/trust/seal_test.cc
test_unit_link_peers_test_SOURCES = test/unit/link/link_peers_test.cc
test_unit_memory_tests_SOURCES = \
	test/unit/memory/allocations_test.cc \
	test/unit/memory/exports_locked_test.cc \
	test/unit/memory/exports_now_test.cc \
	test/unit/memory/exports_posted_test.cc \
	test/unit/memory/exports_test.cc \
	test/unit/memory/memory_registered_test.cc
test_unit_multicast_tests_SOURCES = \
	test/unit/multicast/multicast_counts_test.cc \
	test/unit/multicast/multicast_model_test.cc \
	test/unit/multicast/multicast_parts_test.cc \
	test/unit/multicast/multicast_paths_test.cc
test_unit_nic_emulator_test_SOURCES = test/unit/nic/nic_emulator_test.cc
test_unit_nic_emulator_test_LDADD = libtorii_nic.la $(LDADD)
test_unit_nic_tests_SOURCES = \
	test/unit/nic/nic_bus_test.cc \
	test/unit/nic/nic_cards_test.cc \
	test/unit/nic/nic_core_test.cc \
	test/unit/nic/nic_crossbar_test.cc \
	test/unit/nic/nic_engine_test.cc \
	test/unit/nic/nic_fabric_test.cc \
	test/unit/nic/nic_hosts_test.cc \
	test/unit/nic/nic_hub_test.cc \
	test/unit/nic/nic_link_test.cc \
	test/unit/nic/nic_myrinet_test.cc \
	test/unit/nic/nic_nectar_test.cc \
	test/unit/nic/nic_qsnet_test.cc \
	test/unit/nic/nic_sci_test.cc \
	test/unit/nic/nic_tnet_test.cc \
	test/unit/nic/nic_topology_test.cc
test_unit_nic_tests_LDADD = libtorii_nic.la $(LDADD)
test_unit_param_test_SOURCES = test/unit/base/param_test.cc
test_unit_portals_tests_SOURCES = \
	test/unit/portals/portals_arguments_test.cc \
	test/unit/portals/portals_behaviour_test.cc \
	test/unit/portals/portals_conformance_test.cc \
	test/unit/portals/portals_events_test.cc \
	test/unit/portals/portals_ids_test.cc \
	test/unit/portals/portals_interface_test.cc \
	test/unit/portals/portals_matching_test.cc \
	test/unit/portals/portals_pressure_test.cc
test_unit_ports_tests_SOURCES = \
	test/sim/group_traffic.cc \
	test/unit/multicast/group_test.cc \
	test/unit/tport/port_any_source_test.cc \
	test/unit/tport/ports_in_order_test.cc \
	test/unit/tport/ports_test.cc \
	test/unit/tport/posted_test.cc
test_unit_protocol_tests_SOURCES = \
	test/unit/protocol/choice_test.cc \
	test/unit/protocol/protocol_asked_test.cc \
	test/unit/protocol/protocol_cut_test.cc \
	test/unit/protocol/protocol_route_test.cc \
	test/unit/protocol/protocol_long_test.cc \
	test/unit/protocol/protocol_memory_test.cc \
	test/unit/protocol/protocol_test.cc \
	test/unit/protocol/registrations_test.cc \
	test/unit/protocol/rendezvous_test.cc \
	test/unit/protocol/taken_test.cc
test_unit_shm_tests_SOURCES = \
	test/unit/shm/shm_ask_lies_test.cc \
	test/unit/shm/shm_ask_many_test.cc \
	test/unit/shm/shm_direct_test.cc \
	test/unit/shm/shm_gather_test.cc \
	test/unit/shm/shm_guard_test.cc \
	test/unit/shm/shm_handover_test.cc \
	test/unit/shm/shm_split_test.cc \
	test/unit/shm/shm_stores_test.cc \
	test/unit/shm/shm_test.cc \
	test/unit/shm/switch_points_test.cc
test_unit_threads_tests_SOURCES = \
	test/unit/ni/bypass_test.cc \
	test/unit/ni/ni_test.cc \
	test/unit/ni/progress_test.cc \
	test/unit/ni/together_test.cc \
	test/unit/portals/portals_threads_test.cc \
	test/unit/shm/shm_ask_test.cc \
	test/unit/shm/shm_ring_test.cc
test_unit_ucx_test_SOURCES = test/unit/ucx/ucx_test.cc
test_unit_tools_tests_SOURCES = \
	test/unit/tools/check_test.cc \
	test/unit/tools/check_verdict_test.cc \
	test/unit/tools/paths_table_test.cc \
	test/unit/tools/table_test.cc \
	test/unit/tools/tune_choice_test.cc \
	test/unit/tools/tune_output_test.cc
test_unit_waiting_tests_SOURCES = \
	test/unit/ni/turns_test.cc \
	test/unit/ni/wait_test.cc \
	test/unit/ni/waiter_turns_test.cc

test_unit_tools_tests_LDADD = $(TOOL_LIBS)
endif

# In C, on what programs get to see.
api_programs = \
	test/unit/disabled_api_test \
	test/unit/fork_api_test \
	test/unit/group_api_test \
	test/unit/memory_api_test \
	test/unit/portals_clients_cxx_test \
	test/unit/portals_clients_test \
	test/unit/portals_gone_test \
	test/unit/portals_pids_test
if !SANITIZED
api_programs += test/unit/stack_api_test # sanitizers need longer stacks
endif
check_PROGRAMS += $(api_programs)
test_programs += $(api_programs)
plain_programs += $(api_programs)
test_unit_disabled_api_test_LDADD = libtorii.la
test_unit_disabled_api_test_SOURCES = test/unit/api/disabled_api_test.c
test_unit_fork_api_test_SOURCES = test/unit/api/fork_api_test.c
test_unit_fork_api_test_LDADD = libtorii.la
test_unit_group_api_test_SOURCES = test/unit/api/group_api_test.c
test_unit_group_api_test_LDADD = libtorii.la
test_unit_memory_api_test_SOURCES = test/unit/api/memory_api_test.c
test_unit_memory_api_test_LDADD = libtorii.la
test_unit_portals_clients_cxx_test_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src/core/portals3
test_unit_portals_clients_cxx_test_LDADD = libtorii.la
test_unit_portals_clients_cxx_test_SOURCES = test/unit/portals/portals_clients_cxx_test.cc
test_unit_portals_clients_test_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src/core/portals3
test_unit_portals_clients_test_LDADD = libtorii.la
test_unit_portals_clients_test_SOURCES = test/unit/portals/portals_clients_test.c
test_unit_portals_gone_test_LDADD = libtorii.la
test_unit_portals_gone_test_SOURCES = test/unit/portals/portals_gone_test.c
test_unit_portals_pids_test_LDADD = libtorii.la
test_unit_portals_pids_test_SOURCES = test/unit/portals/portals_pids_test.c
test_unit_stack_api_test_SOURCES = test/unit/api/stack_api_test.c
test_unit_stack_api_test_LDADD = libtorii.la -lpthread
if SANITIZED
# Brings the sanitizers' functions for C++.
$(api_programs) test/unit/portals_reopen: private LINK = $(CXXLINK)
endif

unit_scripts = \
	test/unit/tools/torii_tune.sh \
	test/unit/boot/boot_mpirun.sh \
	test/unit/boot/boot_hydra.sh \
	test/unit/boot/boot_by_hand.sh \
	test/unit/portals/portals_reopen.sh \
	test/unit/contrib/contrib_scripts.sh \
	test/unit/tools/all_tools.sh \
	test/unit/tools/torii_perf.sh \
	test/unit/tools/torii_check.sh \
	test/unit/tools/torii_env.sh \
	test/unit/tools/torii_fabric.sh \
	test/unit/tools/torii_info.sh
dist_check_SCRIPTS += $(unit_scripts)
test_scripts += $(unit_scripts)
check_PROGRAMS += test/unit/boot_probe test/unit/portals_reopen
test_unit_boot_probe_SOURCES = test/unit/boot/boot_probe.cc
test_unit_portals_reopen_SOURCES = test/unit/portals/portals_reopen.c
test_unit_portals_reopen_LDADD = libtorii.la
