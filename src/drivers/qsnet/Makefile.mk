# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/qsnet/qsnet.cc \
	src/drivers/qsnet/qsnet.h
EXTRA_DIST += src/drivers/qsnet/README.md
