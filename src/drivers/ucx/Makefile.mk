# SPDX-License-Identifier: BSD-3-Clause
# Torii is built with UCX's headers and opens its library at run time; without them it has no driver.
libtorii_internal_la_SOURCES += \
	src/drivers/ucx/ucx.h \
	src/drivers/ucx/wire.h
if HAVE_UCX
libtorii_internal_la_SOURCES += \
	src/drivers/ucx/nic.cc \
	src/drivers/ucx/worker.h
else
libtorii_internal_la_SOURCES += src/drivers/ucx/absent.cc
endif
EXTRA_DIST += src/drivers/ucx/README.md
driver_params += src/drivers/ucx/params.def
