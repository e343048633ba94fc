# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/tport/completion_queue.h \
	src/core/tport/ports.cc \
	src/core/tport/ports.h
