# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/ni/membership.cc \
	src/core/ni/membership.h \
	src/core/ni/ni.cc \
	src/core/ni/ni.h \
	src/core/ni/ni_lock.cc \
	src/core/ni/ni_lock.h \
	src/core/ni/open_drivers.cc \
	src/core/ni/progress_thread.cc \
	src/core/ni/progress_thread.h \
	src/core/ni/sleeping.cc \
	src/core/ni/turn_page.cc \
	src/core/ni/turn_page.h \
	src/core/ni/turns.cc \
	src/core/ni/turns.h \
	src/core/ni/waiter.cc \
	src/core/ni/waiter.h
