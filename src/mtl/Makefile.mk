# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += src/mtl/README.md \
	src/mtl/openmpi5/opal/mca/threads/pthreads/threads_pthreads_mutex.h \
	src/mtl/openmpi5/opal/mca/threads/pthreads/threads_pthreads_threads.h \
	src/mtl/openmpi5/opal/mca/threads/pthreads/threads_pthreads_tsd.h
if HAVE_OPENMPI
OMPI_TORII = src/openmpi/ompi_torii.c src/openmpi/ompi_torii.h
ompi_LTLIBRARIES = mca_mtl_torii.la
mca_mtl_torii_la_SOURCES = \
	src/mtl/mtl_torii.c \
	src/mtl/mtl_torii.h \
	src/mtl/mtl_torii_component.c \
	src/mtl/mtl_torii_data.c \
	src/mtl/mtl_torii_data.h \
	src/mtl/mtl_torii_direct.c \
	src/mtl/mtl_torii_message.c \
	src/mtl/mtl_torii_pool.c \
	src/mtl/mtl_torii_pool.h \
	src/mtl/mtl_torii_tests.c \
	src/mtl/mtl_torii_wait.c \
	$(OMPI_TORII)
mca_mtl_torii_la_CPPFLAGS = -I$(top_srcdir)/src/core -I$(top_srcdir)/src/openmpi \
	-isystem $(OMPI_INCDIR) -isystem $(OMPI_INCDIR)/openmpi
if OMPI_5
# Behind Open MPI's own, for the headers that it does not install.
mca_mtl_torii_la_CPPFLAGS += $(PMIX_CFLAGS) -isystem $(top_srcdir)/src/mtl/openmpi5
endif
mca_mtl_torii_la_CFLAGS = $(AM_CFLAGS) -std=gnu11 -mcx16 -fno-strict-aliasing
mca_mtl_torii_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-dynamic \
	-Wl,-z,now $(COMPLETE_FLAGS) $(COMPONENT_RPATH) $(OMPI_LIBDIRS)
mca_mtl_torii_la_LIBADD = libtorii.la -lmpi -lopen-pal
if OMPI_5
mca_mtl_torii_la_LIBADD += -lpmix
endif
endif
