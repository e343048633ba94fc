# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/fabric/card.cc \
	src/drivers/fabric/card.h \
	src/drivers/fabric/fabric.cc \
	src/drivers/fabric/fabric.h \
	src/drivers/fabric/memory.cc \
	src/drivers/fabric/net.h
EXTRA_DIST += src/drivers/fabric/README.md
