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
