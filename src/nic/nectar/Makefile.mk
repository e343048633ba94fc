# SPDX-License-Identifier: BSD-3-Clause
libtorii_nic_la_SOURCES += \
	src/nic/nectar/cab.cc \
	src/nic/nectar/firmware.cc \
	src/nic/nectar/hub.cc \
	src/nic/nectar/hub.h \
	src/nic/nectar/model.h \
	src/nic/nectar/regs.h
