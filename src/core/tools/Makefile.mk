# SPDX-License-Identifier: BSD-3-Clause
nodist_bin_SCRIPTS += src/core/tools/torii-env
bin_PROGRAMS += torii-info
torii_info_SOURCES = \
	src/core/tools/machine.cc \
	src/core/tools/machine.h \
	src/core/tools/table.cc \
	src/core/tools/table.h \
	src/core/tools/torii_info.cc
torii_info_CPPFLAGS = $(AM_CPPFLAGS) -DTORII_OPENMPI_SERIES=\"$(OMPI_MAJOR)\"
torii_info_CXXFLAGS = $(TORII_CXXFLAGS)
torii_info_LDADD = libtorii_internal.la -lpthread -ldl

bin_PROGRAMS += torii-perf
torii_perf_SOURCES = \
	src/core/tools/torii_perf.cc \
	src/core/tools/torii_perf_channel.h \
	src/core/tools/torii_perf_job.cc \
	src/core/tools/torii_perf_job.h \
	src/core/tools/torii_perf_options.cc \
	src/core/tools/torii_perf_options.h \
	src/core/tools/torii_perf_portals.cc \
	src/core/tools/torii_perf_report.cc \
	src/core/tools/torii_perf_report.h \
	src/core/tools/torii_perf_tagged.cc \
	src/core/tools/torii_perf_tests.cc \
	src/core/tools/torii_perf_tests.h
torii_perf_LDADD = libtorii_internal.la -lpthread -ldl
