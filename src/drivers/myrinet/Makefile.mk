# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/myrinet/myrinet.cc \
	src/drivers/myrinet/myrinet.h
EXTRA_DIST += src/drivers/myrinet/README.md
