# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += \
	src/drivers/card_driver.h \
	src/drivers/card_keys.h \
	src/drivers/card_rings.h \
	src/drivers/copy_frame.h \
	src/drivers/card_memory.cc \
	src/drivers/card_memory.h \
	src/drivers/card_peers.h \
	src/drivers/decorator.h \
	src/drivers/done_queue.h \
	src/drivers/driver.cc \
	src/drivers/driver.h \
	src/drivers/interfaces.h \
	src/drivers/list.cc \
	src/drivers/mail_groups.cc \
	src/drivers/mailbox.h \
	src/drivers/mailboxes.cc \
	src/drivers/mailboxes.h \
	src/drivers/remote_puts.cc \
	src/drivers/remote_puts.h \
	src/drivers/storing_driver.cc \
	src/drivers/storing_driver.h \
	src/drivers/trust.h
EXTRA_DIST += src/drivers/README.md
include src/drivers/self/Makefile.mk
include src/drivers/shm/Makefile.mk
include src/drivers/udp/Makefile.mk
include src/drivers/ucx/Makefile.mk
include src/drivers/sim/Makefile.mk
include src/drivers/fabric/Makefile.mk
include src/drivers/fault/Makefile.mk
include src/drivers/myrinet/Makefile.mk
include src/drivers/nectar/Makefile.mk
include src/drivers/process/Makefile.mk
include src/drivers/qsnet/Makefile.mk
include src/drivers/sci/Makefile.mk
include src/drivers/skeleton/Makefile.mk
include src/drivers/tnet/Makefile.mk

# The parameters of all drivers, for core/base/params.def.
EXTRA_DIST += $(driver_params)
driver_params.def: $(driver_params)
	$(AM_V_GEN)./config.status driver_params.def
