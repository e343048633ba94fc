/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The reference implementation declares ranks and maps here (PtlSetRank, PtlSetNIDMap, ...).
 */
#ifndef P3RT_P3RT_H
#define P3RT_P3RT_H

#include <portals3.h>

#endif /* P3RT_P3RT_H */
