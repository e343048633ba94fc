# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/protocol/choice.cc \
	src/core/protocol/choice.h \
	src/core/protocol/express.h \
	src/core/protocol/frames.cc \
	src/core/protocol/move.cc \
	src/core/protocol/multicast.cc \
	src/core/protocol/op.h \
	src/core/protocol/peer.h \
	src/core/protocol/peers.cc \
	src/core/protocol/protocol.h \
	src/core/protocol/receive.cc \
	src/core/protocol/registrations.cc \
	src/core/protocol/registrations.h \
	src/core/protocol/send.cc \
	src/core/protocol/wire.cc \
	src/core/protocol/wire.h
