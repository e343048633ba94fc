/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * p3nal_utcp.h, where OrangeFS looks for it.
 */
#ifndef PORTALS_P3NAL_UTCP_H
#define PORTALS_P3NAL_UTCP_H

#include <p3nal_utcp.h>

#endif /* PORTALS_P3NAL_UTCP_H */
