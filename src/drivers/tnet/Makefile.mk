# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/tnet/tnet.cc \
	src/drivers/tnet/tnet.h
EXTRA_DIST += src/drivers/tnet/README.md
