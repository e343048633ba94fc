# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/self/nic.cc \
	src/drivers/self/nic.h \
	src/drivers/self/self.h
EXTRA_DIST += src/drivers/self/README.md
