/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * p3api/debug.h, where OrangeFS looks for it.
 */
#ifndef PORTALS_P3API_DEBUG_H
#define PORTALS_P3API_DEBUG_H

#include <p3api/debug.h>

#endif /* PORTALS_P3API_DEBUG_H */
