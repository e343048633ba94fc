# SPDX-License-Identifier: BSD-3-Clause
libtorii_nic_la_SOURCES += \
	src/nic/tnet/model.cc \
	src/nic/tnet/model.h \
	src/nic/tnet/regs.h
