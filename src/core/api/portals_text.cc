// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Names of the numbers of portals3.h.
#include "core/portals3.h"

namespace {

constexpr unsigned kErrors = PTL_UNKNOWN_ERROR + 1;
constexpr unsigned kEvents = PTL_EVENT_UNLINK + 1;

}  // namespace

extern "C" {

const char* ptl_err_str[kErrors] = {
    "PTL_OK",
    "PTL_AC_INDEX_INVALID",
    "PTL_EQ_DROPPED",
    "PTL_EQ_EMPTY",
    "PTL_EQ_INVALID",
    "PTL_FAIL",
    "PTL_HANDLE_INVALID",
    "PTL_IFACE_INVALID",
    "PTL_MD_ILLEGAL",
    "PTL_MD_INVALID",
    "PTL_MD_IN_USE",
    "PTL_MD_NO_UPDATE",
    "PTL_ME_INVALID",
    "PTL_ME_IN_USE",
    "PTL_ME_LIST_TOO_LONG",
    "PTL_NI_INVALID",
    "PTL_NO_INIT",
    "PTL_NO_SPACE",
    "PTL_PID_INVALID",
    "PTL_PROCESS_INVALID",
    "PTL_PT_FULL",
    "PTL_PT_INDEX_INVALID",
    "PTL_SEGV",
    "PTL_SR_INDEX_INVALID",
    "PTL_IFACE_DUP",
    "PTL_EQ_IN_USE",
    "PTL_VAL_FAILED",
    "PTL_UNKNOWN_ERROR",
};

// Not in portals3.h: programs declare it, some as char* and some as const char*.
PTL_PUBLIC extern const char* ptl_event_str[kEvents];
const char* ptl_event_str[kEvents] = {
    "PTL_EVENT_GET_START",   "PTL_EVENT_GET_END",      "PTL_EVENT_PUT_START",
    "PTL_EVENT_PUT_END",     "PTL_EVENT_GETPUT_START", "PTL_EVENT_GETPUT_END",
    "PTL_EVENT_REPLY_START", "PTL_EVENT_REPLY_END",    "PTL_EVENT_SEND_START",
    "PTL_EVENT_SEND_END",    "PTL_EVENT_ACK",          "PTL_EVENT_UNLINK",
};

const char* PtlErrorStr(unsigned int ptl_errno) {
  return ptl_errno < kErrors ? ptl_err_str[ptl_errno] : "unknown return code";
}

const char* PtlEventKindStr(ptl_event_kind_t kind) {
  return unsigned(kind) < kEvents ? ptl_event_str[kind] : "unknown event kind";
}

const char* PtlNIFailStr(ptl_handle_ni_t, ptl_ni_fail_t fail_type) {
  switch (fail_type) {
    case PTL_NI_OK:
      return "PTL_NI_OK";
    case PTL_NI_FAIL:
      return "PTL_NI_FAIL";
    case PTL_NI_PEER_DEAD:
      return "PTL_NI_PEER_DEAD";
    default:
      return "unknown failure type";
  }
}

}  // extern "C"
