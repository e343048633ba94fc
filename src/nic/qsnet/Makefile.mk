# SPDX-License-Identifier: BSD-3-Clause
libtorii_nic_la_SOURCES += \
	src/nic/qsnet/contexts.h \
	src/nic/qsnet/dma.h \
	src/nic/qsnet/elan.cc \
	src/nic/qsnet/elite.cc \
	src/nic/qsnet/model.h \
	src/nic/qsnet/regs.h
