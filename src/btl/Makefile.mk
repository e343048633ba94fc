# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += src/btl/README.md
if HAVE_OPENMPI
ompi_LTLIBRARIES += mca_btl_torii.la
mca_btl_torii_la_SOURCES = \
	src/btl/btl_torii.c \
	src/btl/btl_torii.h \
	src/btl/btl_torii_accumulate.c \
	src/btl/btl_torii_memory.c \
	src/btl/btl_torii_message.c \
	src/btl/btl_torii_relock.c \
	$(OMPI_TORII)
mca_btl_torii_la_CPPFLAGS = $(mca_mtl_torii_la_CPPFLAGS)
mca_btl_torii_la_CFLAGS = $(mca_mtl_torii_la_CFLAGS)
mca_btl_torii_la_LDFLAGS = $(mca_mtl_torii_la_LDFLAGS)
mca_btl_torii_la_LIBADD = $(mca_mtl_torii_la_LIBADD)
endif
