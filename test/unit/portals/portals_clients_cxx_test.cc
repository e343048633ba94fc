// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A program for Cray's Portals, in C++. It chooses an interface before it includes anything,
// declares the texts itself, and defines what Cray's headers lack.
#define PTL_IFACE_DEFAULT PTL_IFACE_SS
// clang-format off
#include <portals/portals3.h>
#include <portals/p3nal_utcp.h>
#include <portals/p3api/debug.h>
// clang-format on

extern "C" {
extern const char* ptl_err_str[];
extern const char* ptl_event_str[];
}

#define PTL_EQ_HANDLER_NONE NULL
#define PTL_NO_ACK_REQ PTL_NOACK_REQ
#define PTL_MD_EVENT_AUTO_UNLINK_ENABLE 0

#include "portals_clients.h"

int main() {
  CHECK(PTL_DEBUG_ALL == PTL_DBG_ALL);
  CHECK(PTL_DEBUG_NI_ALL == PTL_DBG_NI_ALL);
  const ptl_interface_t interfaces[] = {CRAY_USER_NAL, CRAY_KERN_NAL, CRAY_QK_NAL};
  for (const ptl_interface_t one : interfaces) CHECK(one == PTL_IFACE_DEFAULT);
  const ptl_ack_req_t quiet = PTL_NO_ACK_REQ;
  CHECK(quiet != PTL_ACK_REQ);
  return run_client();
}
