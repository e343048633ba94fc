/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * In place of Open MPI's header of this name, which ompi/op/op.h includes and which packages do not
 * install: an int as Fortran has it.
 */
#ifndef COLL_TORII_FINT_2_INT_H
#define COLL_TORII_FINT_2_INT_H

#define OMPI_INT_2_FINT(a) ((MPI_Fint)(a))

#endif
