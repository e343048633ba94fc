# SPDX-License-Identifier: BSD-3-Clause
nodist_bin_SCRIPTS += src/core/tools/torii-env
EXTRA_DIST += src/core/tools/README.md

# Manual pages, from what the tools print by --help. None where tools of another system cannot run.
man_pages = torii-check.1 torii-env.1 torii-fabric.1 torii-info.1 torii-perf.1 torii-tune.1
if MAN_PAGES
man_MANS = $(man_pages)
endif
CLEANFILES += $(man_pages)
EXTRA_DIST += src/core/tools/man-page
torii-check.1: torii-check$(EXEEXT)
torii-env.1: src/core/tools/torii-env
torii-fabric.1: torii-fabric$(EXEEXT)
torii-info.1: torii-info$(EXEEXT)
torii-perf.1: torii-perf$(EXEEXT)
torii-tune.1: torii-tune$(EXEEXT)
$(man_pages): src/core/tools/man-page
	$(AM_V_GEN)$(SHELL) $(srcdir)/src/core/tools/man-page $(if $(filter %-env,$^),,$(TEST_RUNNER)) \
		./$(filter-out %/man-page,$^) >$@.new && mv $@.new $@

# The sources of the tools and their tests, beside the library.
noinst_LIBRARIES += libtorii_tools.a
libtorii_tools_a_SOURCES = \
	src/core/tools/check/check_data.cc \
	src/core/tools/check/check_data.h \
	src/core/tools/check/check_facts.cc \
	src/core/tools/check/check_facts.h \
	src/core/tools/check/check_hosts.cc \
	src/core/tools/check/check_hosts.h \
	src/core/tools/check/check_meeting.cc \
	src/core/tools/check/check_meeting.h \
	src/core/tools/check/check_names.cc \
	src/core/tools/check/check_names.h \
	src/core/tools/check/check_output.cc \
	src/core/tools/check/check_part.cc \
	src/core/tools/check/check_plan.cc \
	src/core/tools/check/check_plan.h \
	src/core/tools/check/check_prober.cc \
	src/core/tools/check/check_prober.h \
	src/core/tools/check/check_run.cc \
	src/core/tools/check/check_run.h \
	src/core/tools/check/check_stream.cc \
	src/core/tools/check/check_stream.h \
	src/core/tools/check/check_verdict.cc \
	src/core/tools/check/check_verdict.h \
	src/core/tools/cores.cc \
	src/core/tools/cores.h \
	src/core/tools/info/paths_table.cc \
	src/core/tools/info/paths_table.h \
	src/core/tools/machine.cc \
	src/core/tools/machine.h \
	src/core/tools/perf/torii_perf_channel.h \
	src/core/tools/perf/torii_perf_collective.cc \
	src/core/tools/perf/torii_perf_collective.h \
	src/core/tools/perf/torii_perf_job.cc \
	src/core/tools/perf/torii_perf_job.h \
	src/core/tools/perf/torii_perf_memory.cc \
	src/core/tools/perf/torii_perf_memory.h \
	src/core/tools/perf/torii_perf_options.cc \
	src/core/tools/perf/torii_perf_options.h \
	src/core/tools/perf/torii_perf_portals.cc \
	src/core/tools/perf/torii_perf_report.cc \
	src/core/tools/perf/torii_perf_report.h \
	src/core/tools/perf/torii_perf_run.cc \
	src/core/tools/perf/torii_perf_run.h \
	src/core/tools/perf/torii_perf_tagged.cc \
	src/core/tools/perf/torii_perf_tests.cc \
	src/core/tools/perf/torii_perf_tests.h \
	src/core/tools/table.cc \
	src/core/tools/table.h \
	src/core/tools/tune/tune_choice.cc \
	src/core/tools/tune/tune_choice.h \
	src/core/tools/tune/tune_output.cc \
	src/core/tools/tune/tune_output.h \
	src/core/tools/tune/tune_rounds.cc \
	src/core/tools/tune/tune_rounds.h
libtorii_tools_a_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CFLAGS)
TOOL_LIBS = libtorii_tools.a libtorii_internal.la $(HWLOC_LIBS) -lpthread -ldl

bin_PROGRAMS += torii-check torii-info torii-perf torii-tune
torii_check_SOURCES = src/core/tools/check/torii_check.cc
torii_check_LDADD = $(TOOL_LIBS)
torii_info_SOURCES = src/core/tools/info/torii_info.cc
torii_info_CPPFLAGS = $(AM_CPPFLAGS) -DTORII_OPENMPI_SERIES=\"$(OMPI_MAJOR)\"
torii_info_LDADD = $(TOOL_LIBS)
torii_perf_SOURCES = src/core/tools/perf/torii_perf.cc
torii_perf_LDADD = $(TOOL_LIBS)
torii_tune_SOURCES = src/core/tools/tune/torii_tune.cc
torii_tune_LDADD = $(TOOL_LIBS)
