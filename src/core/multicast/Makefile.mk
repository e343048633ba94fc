# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += src/core/multicast/README.md
libtorii_internal_la_SOURCES += \
	src/core/multicast/channel.h \
	src/core/multicast/gathering.cc \
	src/core/multicast/gathering.h \
	src/core/multicast/group.cc \
	src/core/multicast/group.h \
	src/core/multicast/group_node.cc \
	src/core/multicast/group_node.h \
	src/core/multicast/header.cc \
	src/core/multicast/header.h \
	src/core/multicast/member.cc \
	src/core/multicast/member.h \
	src/core/multicast/node_set.h \
	src/core/multicast/outgoing.cc \
	src/core/multicast/outgoing.h \
	src/core/multicast/proof.cc \
	src/core/multicast/proof.h \
	src/core/multicast/receiver.cc \
	src/core/multicast/receiver.h \
	src/core/multicast/releases.cc \
	src/core/multicast/releases.h \
	src/core/multicast/repairs.cc \
	src/core/multicast/repairs.h \
	src/core/multicast/ring.cc \
	src/core/multicast/ring.h \
	src/core/multicast/sender.cc \
	src/core/multicast/sender.h \
	src/core/multicast/silence.h \
	src/core/multicast/tree.h
