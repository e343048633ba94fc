# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/portals/access_control.cc \
	src/core/portals/access_control.h \
	src/core/portals/eq.cc \
	src/core/portals/eq.h \
	src/core/portals/events.cc \
	src/core/portals/handle.h \
	src/core/portals/initiator.cc \
	src/core/portals/md.cc \
	src/core/portals/md.h \
	src/core/portals/me.cc \
	src/core/portals/me.h \
	src/core/portals/objects.cc \
	src/core/portals/portal_table.cc \
	src/core/portals/portal_table.h \
	src/core/portals/portals.h \
	src/core/portals/status.cc \
	src/core/portals/target.cc \
	src/core/portals/transfer.cc \
	src/core/portals/transfer.h
EXTRA_DIST += src/core/portals/PORTING.md src/core/portals/README.md
