# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/link/congestion.h \
	src/core/link/contact.cc \
	src/core/link/crc32c.cc \
	src/core/link/crc32c.h \
	src/core/link/group_header.cc \
	src/core/link/group_header.h \
	src/core/link/groups.cc \
	src/core/link/header.cc \
	src/core/link/header.h \
	src/core/link/link.cc \
	src/core/link/link.h \
	src/core/link/link_driver.h \
	src/core/link/long_frames.h \
	src/core/link/rails.cc \
	src/core/link/receiving.cc \
	src/core/link/sending.cc \
	src/core/link/sent_frames.h \
	src/core/link/sleeping.cc \
	src/core/link/speed.h \
	src/core/link/timer.h \
	src/core/link/watch.cc \
	src/core/link/watch.h
EXTRA_DIST += src/core/link/README.md
