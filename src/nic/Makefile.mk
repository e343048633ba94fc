# SPDX-License-Identifier: BSD-3-Clause
# Emulated cards are no part of libtorii: torii-fabric and tests link them.
noinst_LTLIBRARIES += libtorii_nic.la
libtorii_nic_la_CXXFLAGS = $(TORII_CXXFLAGS)
libtorii_nic_la_SOURCES = \
	src/nic/bus.cc \
	src/nic/bus.h \
	src/nic/card.h \
	src/nic/crossbar.cc \
	src/nic/crossbar.h \
	src/nic/engine.h \
	src/nic/fabric.cc \
	src/nic/fabric.h \
	src/nic/faults.cc \
	src/nic/faults.h \
	src/nic/hosts.cc \
	src/nic/hosts.h \
	src/nic/kinds.cc \
	src/nic/link.cc \
	src/nic/link.h \
	src/nic/mmu.h \
	src/nic/model.h \
	src/nic/node.cc \
	src/nic/node.h \
	src/nic/packet.h \
	src/nic/processor.h \
	src/nic/topology.cc \
	src/nic/topology.h \
	src/nic/trace.cc \
	src/nic/trace.h
EXTRA_DIST += src/nic/README.md src/nic/lessons.md
include src/nic/emulator/Makefile.mk
include src/nic/myrinet/Makefile.mk
include src/nic/nectar/Makefile.mk
include src/nic/qsnet/Makefile.mk
include src/nic/sci/Makefile.mk
include src/nic/skeleton/Makefile.mk
include src/nic/tnet/Makefile.mk
