# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/fault/arrivals.h \
	src/drivers/fault/fault.cc \
	src/drivers/fault/fault.h \
	src/drivers/fault/plan.cc
EXTRA_DIST += src/drivers/fault/README.md
driver_params += src/drivers/fault/params.def
