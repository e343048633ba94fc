# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/api/collective_api.cc \
	src/core/api/handles.h \
	src/core/api/launched_ni.cc \
	src/core/api/launched_ni.h \
	src/core/api/ni_registry.cc \
	src/core/api/ni_registry.h \
	src/core/api/portals_api.cc \
	src/core/api/process_ids.cc \
	src/core/api/process_ids.h \
	src/core/api/read_data.h \
	src/core/api/portals_text.cc \
	src/core/api/memory_api.cc \
	src/core/api/torii_api.cc \
	src/core/api/torii_error.h
