# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += src/core/collective/README.md
libtorii_internal_la_SOURCES += \
	src/core/collective/collectives.cc \
	src/core/collective/collectives.h \
	src/core/collective/group_team.cc \
	src/core/collective/group_team.h \
	src/core/collective/letter.cc \
	src/core/collective/letter.h \
	src/core/collective/nodes_setup.cc \
	src/core/collective/nodes_team.cc \
	src/core/collective/nodes_team.h \
	src/core/collective/operation.h \
	src/core/collective/segment.h \
	src/core/collective/team.cc \
	src/core/collective/team.h
