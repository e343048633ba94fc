/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * A program for the reference implementation, in C. Its kind declares ptl_event_str as char*.
 */
/* clang-format off */
#include <portals3.h>
#include <stdio.h>
#include <p3nal_utcp.h>
#include <p3rt/p3rt.h>
#include <p3api/debug.h>
/* clang-format on */

/* Where the reference implementation writes to; programs define them. */
FILE* utcp_api_out;
FILE* utcp_lib_out;

extern char* ptl_event_str[];

#include "portals_clients.h"

static const unsigned int kinds = PTL_DBG_NONE | PTL_DBG_API | PTL_DBG_PARSE | PTL_DBG_MOVE |
                                  PTL_DBG_DROP | PTL_DBG_REQUEST | PTL_DBG_DELIVERY | PTL_DBG_MD |
                                  PTL_DBG_ME | PTL_DBG_UNLINK | PTL_DBG_EQ | PTL_DBG_EVENT |
                                  PTL_DBG_MEMORY | PTL_DBG_SETUP | PTL_DBG_SHUTDOWN;

int main(void) {
  utcp_api_out = utcp_lib_out = stderr;
  CHECK((kinds & ~PTL_DBG_ALL) == 0);
  return run_client();
}
