# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += src/core/memory/allocations.cc src/core/memory/allocations.h
