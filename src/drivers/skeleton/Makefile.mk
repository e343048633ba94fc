# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/skeleton/skeleton.cc \
	src/drivers/skeleton/skeleton.h
EXTRA_DIST += src/drivers/skeleton/README.md
