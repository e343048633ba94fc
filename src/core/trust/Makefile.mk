# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/trust/key_pair.cc \
	src/core/trust/key_pair.h
EXTRA_DIST += src/core/trust/README.md
