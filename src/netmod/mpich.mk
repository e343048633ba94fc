# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# The netmod in MPICH's build, where it is called Makefile.mk.
if BUILD_CH4_NETMOD_TORII
mpi_core_sources += \
    src/mpid/ch4/netmod/torii/func_table.c \
    src/mpid/ch4/netmod/torii/torii_am.c \
    src/mpid/ch4/netmod/torii/torii_coll.c \
    src/mpid/ch4/netmod/torii/torii_compositions.c \
    src/mpid/ch4/netmod/torii/torii_data.c \
    src/mpid/ch4/netmod/torii/torii_hooks.c \
    src/mpid/ch4/netmod/torii/torii_init.c \
    src/mpid/ch4/netmod/torii/torii_message.c \
    src/mpid/ch4/netmod/torii/torii_rma.c \
    src/mpid/ch4/netmod/torii/torii_spawn.c \
    src/mpid/ch4/netmod/torii/torii_window.c
endif
