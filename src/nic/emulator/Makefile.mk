# SPDX-License-Identifier: BSD-3-Clause
libtorii_nic_la_SOURCES += \
	src/nic/emulator/channel.h \
	src/nic/emulator/emulator.cc \
	src/nic/emulator/emulator.h \
	src/nic/emulator/guest.cc \
	src/nic/emulator/guest.h
EXTRA_DIST += src/nic/emulator/README.md
bin_PROGRAMS += torii-fabric
torii_fabric_SOURCES = src/nic/emulator/torii_fabric.cc
torii_fabric_LDADD = libtorii_nic.la $(LDADD)
