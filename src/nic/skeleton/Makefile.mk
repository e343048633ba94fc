# SPDX-License-Identifier: BSD-3-Clause
libtorii_nic_la_SOURCES += \
	src/nic/skeleton/model.cc \
	src/nic/skeleton/model.h \
	src/nic/skeleton/regs.h
