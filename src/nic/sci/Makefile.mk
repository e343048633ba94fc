# SPDX-License-Identifier: BSD-3-Clause
libtorii_nic_la_SOURCES += \
	src/nic/sci/card.cc \
	src/nic/sci/card.h \
	src/nic/sci/dma.cc \
	src/nic/sci/model.h \
	src/nic/sci/regs.h \
	src/nic/sci/ring.cc
