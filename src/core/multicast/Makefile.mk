# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/multicast/group.cc \
	src/core/multicast/group.h \
	src/core/multicast/header.cc \
	src/core/multicast/header.h \
	src/core/multicast/node_set.h \
	src/core/multicast/ring.cc \
	src/core/multicast/ring.h \
	src/core/multicast/tree.h
