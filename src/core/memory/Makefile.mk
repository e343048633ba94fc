# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/memory/allocations.cc \
	src/core/memory/allocations.h \
	src/core/memory/exports.cc \
	src/core/memory/exports.h \
	src/core/memory/imports.cc \
	src/core/memory/imports.h \
	src/core/memory/key.cc \
	src/core/memory/key.h
