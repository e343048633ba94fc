# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/sim/sim.cc \
	src/drivers/sim/sim.h
EXTRA_DIST += src/drivers/sim/README.md
