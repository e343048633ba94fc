# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += src/mpool/README.md
if HAVE_OPENMPI
ompi_LTLIBRARIES += mca_mpool_torii.la
mca_mpool_torii_la_SOURCES = src/mpool/mpool_torii_component.c
mca_mpool_torii_la_CPPFLAGS = $(mca_mtl_torii_la_CPPFLAGS)
mca_mpool_torii_la_CFLAGS = $(mca_mtl_torii_la_CFLAGS)
mca_mpool_torii_la_LDFLAGS = $(mca_mtl_torii_la_LDFLAGS)
mca_mpool_torii_la_LIBADD = libtorii.la -lopen-pal
endif
