/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The reference implementation declares PtlNIDebug, PtlTblDump and PtlMEDump here, and kinds of
 * debugging output. Those that portals3.h does not have are accepted and have no effect.
 */
#ifndef P3API_DEBUG_H
#define P3API_DEBUG_H

#include <portals3.h>

#define PTL_DBG_NONE 0U
#define PTL_DBG_API 0x0010U
#define PTL_DBG_PARSE 0x0020U
#define PTL_DBG_MOVE 0x0040U
#define PTL_DBG_REQUEST 0x0080U
#define PTL_DBG_DELIVERY 0x0100U
#define PTL_DBG_MD 0x0200U
#define PTL_DBG_ME 0x0400U
#define PTL_DBG_UNLINK 0x0800U
#define PTL_DBG_EQ 0x1000U
#define PTL_DBG_EVENT 0x2000U
#define PTL_DBG_MEMORY 0x4000U
#define PTL_DBG_SETUP 0x8000U
#define PTL_DBG_SHUTDOWN 0x0008U

#endif /* P3API_DEBUG_H */
