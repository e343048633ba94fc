# SPDX-License-Identifier: BSD-3-Clause
# One program for the tests of one or a few layers. The files that start threads are a program of
# their own, which the thread sanitizer runs. Four want their own process: boot_test starts jobs,
# hotpath_test replaces malloc, link_peers_test measures memory, param_test must be the first to read the parameters.
EXTRA_DIST += \
	test/unit/api_kit.h \
	test/unit/boot_launchers.sh \
	test/unit/check_kit.h \
	test/unit/exports_kit.h \
	test/unit/link_fixture.h \
	test/unit/link_kit.h \
	test/unit/portals_clients.h \
	test/unit/portals_kit.h \
	test/unit/protocol_kit.h \
	test/unit/shm_ask_kit.h \
	test/unit/shm_kit.h \
	test/unit/tool_kit.sh \
	test/unit/udp_ends.h \
	test/unit/udp_kit.h \
	test/unit/waiter_kit.h

if HAVE_GTEST
unit_programs = \
	test/unit/ports_tests \
	test/unit/threads_tests \
	test/unit/waiting_tests \
	test/unit/shm_tests \
	test/unit/boot_test \
	test/unit/drivers_tests \
	test/unit/link_tests \
	test/unit/link_peers_test \
	test/unit/memory_tests \
	test/unit/portals_tests \
	test/unit/protocol_tests \
	test/unit/base_tests \
	test/unit/param_test \
	test/unit/tools_tests
plain_programs += test/unit/threads_tests test/unit/waiting_tests test/unit/shm_tests
if !SANITIZED
unit_programs += test/unit/hotpath_test
plain_programs += test/unit/hotpath_test
endif
check_PROGRAMS += $(unit_programs)
test_programs += $(unit_programs)
threaded_programs += test/unit/threads_tests test/unit/boot_test

test_unit_base_tests_SOURCES = \
	test/unit/buffers_test.cc \
	test/unit/copy_test.cc \
	test/unit/log_test.cc \
	test/unit/match_test.cc \
	test/unit/tune_file_test.cc
test_unit_boot_test_SOURCES = test/unit/boot_test.cc
test_unit_drivers_tests_SOURCES = \
	test/unit/fault_test.cc \
	test/unit/sim_test.cc \
	test/unit/udp_paths_test.cc \
	test/unit/udp_sizes_test.cc \
	test/unit/udp_test.cc \
	test/unit/udp_wire_test.cc
test_unit_hotpath_test_SOURCES = test/unit/hotpath_test.cc
test_unit_link_tests_SOURCES = \
	test/unit/link_ack_test.cc \
	test/unit/link_life_test.cc \
	test/unit/link_long_test.cc \
	test/unit/link_parts_test.cc \
	test/unit/link_rails_test.cc \
	test/unit/key_pair_test.cc \
	test/unit/link_test.cc \
	test/unit/link_trust_test.cc \
	test/unit/watch_test.cc
test_unit_link_peers_test_SOURCES = test/unit/link_peers_test.cc
test_unit_memory_tests_SOURCES = \
	test/unit/allocations_test.cc \
	test/unit/exports_locked_test.cc \
	test/unit/exports_now_test.cc \
	test/unit/exports_posted_test.cc \
	test/unit/exports_test.cc \
	test/unit/memory_registered_test.cc
test_unit_param_test_SOURCES = test/unit/param_test.cc
test_unit_portals_tests_SOURCES = \
	test/unit/portals_arguments_test.cc \
	test/unit/portals_behaviour_test.cc \
	test/unit/portals_conformance_test.cc \
	test/unit/portals_events_test.cc \
	test/unit/portals_ids_test.cc \
	test/unit/portals_interface_test.cc \
	test/unit/portals_matching_test.cc \
	test/unit/portals_pressure_test.cc
test_unit_ports_tests_SOURCES = \
	test/sim/group_traffic.cc \
	test/unit/group_test.cc \
	test/unit/port_any_source_test.cc \
	test/unit/ports_in_order_test.cc \
	test/unit/ports_test.cc \
	test/unit/posted_test.cc
test_unit_protocol_tests_SOURCES = \
	test/unit/choice_test.cc \
	test/unit/protocol_asked_test.cc \
	test/unit/protocol_cut_test.cc \
	test/unit/protocol_long_test.cc \
	test/unit/protocol_memory_test.cc \
	test/unit/protocol_test.cc \
	test/unit/registrations_test.cc \
	test/unit/rendezvous_test.cc \
	test/unit/taken_test.cc
test_unit_shm_tests_SOURCES = \
	test/unit/shm_ask_lies_test.cc \
	test/unit/shm_ask_many_test.cc \
	test/unit/shm_direct_test.cc \
	test/unit/shm_gather_test.cc \
	test/unit/shm_guard_test.cc \
	test/unit/shm_handover_test.cc \
	test/unit/shm_split_test.cc \
	test/unit/shm_stores_test.cc \
	test/unit/shm_test.cc \
	test/unit/switch_points_test.cc
test_unit_threads_tests_SOURCES = \
	test/unit/bypass_test.cc \
	test/unit/ni_test.cc \
	test/unit/portals_threads_test.cc \
	test/unit/progress_test.cc \
	test/unit/shm_ask_test.cc \
	test/unit/shm_ring_test.cc \
	test/unit/together_test.cc
test_unit_tools_tests_SOURCES = \
	test/unit/check_test.cc \
	test/unit/check_verdict_test.cc \
	test/unit/paths_table_test.cc \
	test/unit/table_test.cc \
	test/unit/tune_choice_test.cc \
	test/unit/tune_output_test.cc
test_unit_waiting_tests_SOURCES = \
	test/unit/turns_test.cc \
	test/unit/wait_test.cc \
	test/unit/waiter_turns_test.cc

test_unit_base_tests_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_base_tests_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_boot_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_boot_test_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_drivers_tests_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_drivers_tests_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_hotpath_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_hotpath_test_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_link_tests_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_link_tests_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_link_peers_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_link_peers_test_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_memory_tests_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_memory_tests_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_param_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_param_test_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_portals_tests_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_portals_tests_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_ports_tests_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_ports_tests_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_protocol_tests_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_protocol_tests_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_shm_tests_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_shm_tests_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_threads_tests_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_threads_tests_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_tools_tests_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_tools_tests_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_waiting_tests_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_waiting_tests_CXXFLAGS = $(TEST_CXXFLAGS)
test_unit_tools_tests_LDADD = libtorii_tools.a $(TEST_LIBS) $(HWLOC_LIBS)

$(foreach program,$(unit_programs),$($(subst /,_,$(program))_OBJECTS)): $(PRECOMPILED_HEADER)
endif

# In C, on what programs get to see.
api_programs = \
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
test_unit_fork_api_test_SOURCES = test/unit/fork_api_test.c
test_unit_fork_api_test_LDADD = libtorii.la
test_unit_fork_api_test_LINK = $(API_LINK)
test_unit_group_api_test_SOURCES = test/unit/group_api_test.c
test_unit_group_api_test_LDADD = libtorii.la
test_unit_group_api_test_LINK = $(API_LINK)
test_unit_memory_api_test_SOURCES = test/unit/memory_api_test.c
test_unit_memory_api_test_LDADD = libtorii.la
test_unit_memory_api_test_LINK = $(API_LINK)
test_unit_portals_clients_cxx_test_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src/core/portals3
test_unit_portals_clients_cxx_test_LDADD = libtorii.la
test_unit_portals_clients_cxx_test_SOURCES = test/unit/portals_clients_cxx_test.cc
test_unit_portals_clients_test_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src/core/portals3
test_unit_portals_clients_test_LDADD = libtorii.la
test_unit_portals_clients_test_LINK = $(API_LINK)
test_unit_portals_clients_test_SOURCES = test/unit/portals_clients_test.c
test_unit_portals_gone_test_LDADD = libtorii.la
test_unit_portals_gone_test_LINK = $(API_LINK)
test_unit_portals_gone_test_SOURCES = test/unit/portals_gone_test.c
test_unit_portals_pids_test_LDADD = libtorii.la
test_unit_portals_pids_test_LINK = $(API_LINK)
test_unit_portals_pids_test_SOURCES = test/unit/portals_pids_test.c
test_unit_stack_api_test_SOURCES = test/unit/stack_api_test.c
test_unit_stack_api_test_LDADD = libtorii.la -lpthread
test_unit_stack_api_test_LINK = $(API_LINK)
if SANITIZED
API_LINK = $(CXXLINK) # brings the sanitizers' functions for C++
else
API_LINK = $(LINK)
endif

unit_scripts = \
	test/unit/torii_tune.sh \
	test/unit/boot_mpirun.sh \
	test/unit/boot_hydra.sh \
	test/unit/boot_by_hand.sh \
	test/unit/portals_reopen.sh \
	test/unit/torii_perf.sh \
	test/unit/torii_check.sh \
	test/unit/torii_env.sh \
	test/unit/torii_info.sh
dist_check_SCRIPTS += $(unit_scripts)
test_scripts += $(unit_scripts)
check_PROGRAMS += test/unit/boot_probe test/unit/portals_reopen
test_unit_boot_probe_SOURCES = test/unit/boot_probe.cc
test_unit_boot_probe_LDADD = libtorii_internal.la -lpthread -ldl
test_unit_portals_reopen_SOURCES = test/unit/portals_reopen.c
test_unit_portals_reopen_LDADD = libtorii.la
test_unit_portals_reopen_LINK = $(API_LINK)
