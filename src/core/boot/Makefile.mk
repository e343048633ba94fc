# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/core/boot/boot.cc \
	src/core/boot/boot.h \
	src/core/boot/environment_boot.cc \
	src/core/boot/launcher.h \
	src/core/boot/pmi1_boot.cc \
	src/core/boot/pmi1_text.cc \
	src/core/boot/pmix_boot.cc \
	src/core/boot/process_map.cc \
	src/core/boot/process_map.h
