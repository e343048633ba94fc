# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/shm/arena.cc \
	src/drivers/shm/arena.h \
	src/drivers/shm/frame.h \
	src/drivers/shm/layout.h \
	src/drivers/shm/nic.cc \
	src/drivers/shm/nic.h \
	src/drivers/shm/peers.cc \
	src/drivers/shm/peers.h \
	src/drivers/shm/remote.cc \
	src/drivers/shm/remote.h \
	src/drivers/shm/requests.cc \
	src/drivers/shm/requests.h \
	src/drivers/shm/ring.h \
	src/drivers/shm/segment.cc \
	src/drivers/shm/segment.h \
	src/drivers/shm/shm.h \
	src/drivers/shm/splits.cc \
	src/drivers/shm/splits.h \
	src/drivers/shm/stores.h \
	src/drivers/shm/switch_points.cc \
	src/drivers/shm/switch_points.h \
	src/drivers/shm/wait.cc
EXTRA_DIST += src/drivers/shm/README.md
driver_params += src/drivers/shm/params.def
