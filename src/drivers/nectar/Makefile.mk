# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/nectar/nectar.cc \
	src/drivers/nectar/nectar.h
EXTRA_DIST += src/drivers/nectar/README.md
