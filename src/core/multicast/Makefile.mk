# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += src/core/multicast/group.cc src/core/multicast/group.h
