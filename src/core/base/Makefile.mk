# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/base/abstract_socket.cc \
	src/core/base/abstract_socket.h \
	src/core/base/atomics.h \
	src/core/base/counters.def \
	src/core/base/copy.cc \
	src/core/base/copy.h \
	src/core/base/counters.h \
	src/core/base/data.cc \
	src/core/base/data.h \
	src/core/base/descriptor.h \
	src/core/base/forked.cc \
	src/core/base/forked.h \
	src/core/base/hardware.cc \
	src/core/base/hardware.h \
	src/core/base/host_name.cc \
	src/core/base/host_name.h \
	src/core/base/inplace_vector.h \
	src/core/base/little_endian.h \
	src/core/base/log.cc \
	src/core/base/log.h \
	src/core/base/param.cc \
	src/core/base/param.h \
	src/core/base/params.def \
	src/core/base/pause.h \
	src/core/base/processors.cc \
	src/core/base/processors.h \
	src/core/base/sealed_memory.cc \
	src/core/base/sealed_memory.h \
	src/core/base/slot_pool.h \
	src/core/base/small_file.cc \
	src/core/base/small_file.h \
	src/core/base/spare_descriptor.h \
	src/core/base/status.cc \
	src/core/base/status.h \
	src/core/base/tune_file.cc \
	src/core/base/tune_file.h
