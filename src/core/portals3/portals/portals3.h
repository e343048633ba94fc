/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * portals3.h, where programs for Cray's Portals look for it.
 */
#ifndef PORTALS_PORTALS3_H
#define PORTALS_PORTALS3_H

#include <portals3.h>

#endif /* PORTALS_PORTALS3_H */
