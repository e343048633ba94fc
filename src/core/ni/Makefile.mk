# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/ni/ni.cc \
	src/core/ni/ni.h \
	src/core/ni/waiter.cc \
	src/core/ni/waiter.h
