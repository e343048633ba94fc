# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += src/core/match/match_list.cc src/core/match/match_list.h
