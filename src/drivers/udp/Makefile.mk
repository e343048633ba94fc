# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/udp/groups.cc \
	src/drivers/udp/lifelines.cc \
	src/drivers/udp/lifelines.h \
	src/drivers/udp/net.cc \
	src/drivers/udp/net.h \
	src/drivers/udp/nic.cc \
	src/drivers/udp/nic.h \
	src/drivers/udp/outbox.h \
	src/drivers/udp/path_size.h \
	src/drivers/udp/paths.cc \
	src/drivers/udp/pieces.cc \
	src/drivers/udp/pieces.h \
	src/drivers/udp/receive.cc \
	src/drivers/udp/routes.cc \
	src/drivers/udp/send.cc \
	src/drivers/udp/sockets.cc \
	src/drivers/udp/udp.h \
	src/drivers/udp/wire.cc \
	src/drivers/udp/wire.h
EXTRA_DIST += src/drivers/udp/README.md
driver_params += src/drivers/udp/params.def
