# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += src/coll/README.md src/coll/openmpi/ompi/mpi/fortran/base/fint_2_int.h
if HAVE_OPENMPI
ompi_LTLIBRARIES += mca_coll_torii.la
mca_coll_torii_la_SOURCES = \
	src/coll/coll_torii.h \
	src/coll/coll_torii_component.c \
	src/coll/coll_torii_operations.c \
	src/coll/coll_torii_setup.c \
	$(OMPI_TORII)
# Behind Open MPI's own, for the header that packages do not install.
mca_coll_torii_la_CPPFLAGS = $(mca_mtl_torii_la_CPPFLAGS) -isystem $(top_srcdir)/src/coll/openmpi
mca_coll_torii_la_CFLAGS = $(mca_mtl_torii_la_CFLAGS)
mca_coll_torii_la_LDFLAGS = $(mca_mtl_torii_la_LDFLAGS)
mca_coll_torii_la_LIBADD = $(mca_mtl_torii_la_LIBADD)
endif
