# SPDX-License-Identifier: BSD-3-Clause
libtorii_nic_la_SOURCES += \
	src/nic/myrinet/bulldog.cc \
	src/nic/myrinet/model.cc \
	src/nic/myrinet/model.h \
	src/nic/myrinet/raw.cc \
	src/nic/myrinet/regs.h
