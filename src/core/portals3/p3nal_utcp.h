/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Programs for the reference implementation include it to choose UTCP, their default interface.
 */
#ifndef P3NAL_UTCP_H
#define P3NAL_UTCP_H

#include <portals3.h>

#endif /* P3NAL_UTCP_H */
