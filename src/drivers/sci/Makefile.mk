# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/sci/sci.cc \
	src/drivers/sci/sci.h
EXTRA_DIST += src/drivers/sci/README.md
