# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/trust/cipher.cc \
	src/core/trust/key_pair.cc \
	src/core/trust/key_pair.h \
	src/core/trust/libcrypto.h \
	src/core/trust/seal.cc \
	src/core/trust/seal.h \
	src/core/trust/siphash.cc \
	src/core/trust/siphash.h
EXTRA_DIST += src/core/trust/README.md
