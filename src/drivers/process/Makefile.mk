# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/process/process_card.cc \
	src/drivers/process/process_card.h
