# SPDX-License-Identifier: BSD-3-Clause
libtorii_nic_la_SOURCES += \
	src/nic/qsnet/dma.cc \
	src/nic/qsnet/elan.cc \
	src/nic/qsnet/elan.h \
	src/nic/qsnet/elite.cc \
	src/nic/qsnet/elite.h \
	src/nic/qsnet/input.cc \
	src/nic/qsnet/model.h \
	src/nic/qsnet/regs.h
