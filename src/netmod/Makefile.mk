# SPDX-License-Identifier: BSD-3-Clause
# MPICH's build compiles these files; contrib/mpich/torii-netmod brings them there.
EXTRA_DIST += \
	src/netmod/README.md \
	src/netmod/mpich.mk \
	src/netmod/netmod_inline.h \
	src/netmod/subconfigure.m4 \
	src/netmod/torii_am.c \
	src/netmod/torii_coll.c \
	src/netmod/torii_coll.h \
	src/netmod/torii_compat.h \
	src/netmod/torii_compositions.c \
	src/netmod/torii_data.c \
	src/netmod/torii_hooks.c \
	src/netmod/torii_impl.h \
	src/netmod/torii_init.c \
	src/netmod/torii_message.c \
	src/netmod/torii_message.h \
	src/netmod/torii_pre.h \
	src/netmod/torii_rma.c \
	src/netmod/torii_rma.h \
	src/netmod/torii_spawn.c \
	src/netmod/torii_window.c
