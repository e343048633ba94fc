/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The way programs for other implementations of Portals 3.3 are written, in one process. Valid in
 * C and in C++. Each source that includes it has included the headers of one kind of program and
 * declared ptl_event_str as that kind does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

/* Two labels of one value would not compile. */
static const char* explain(int code) {
  switch (code) {
    case PTL_OK:
      return "fine";
    case PTL_IFACE_DUP:
      return "the interface is open already";
    case PTL_NO_INIT:
    case PTL_IFACE_INVALID:
    case PTL_PID_INVALID:
    case PTL_NO_SPACE:
    case PTL_SEGV:
    case PTL_FAIL:
      return "no interface";
    case PTL_EQ_EMPTY:
    case PTL_EQ_DROPPED:
    case PTL_EQ_IN_USE:
      return "queue";
    case PTL_VAL_FAILED:
    case PTL_UNKNOWN_ERROR:
      return "unknown";
    default:
      return "other";
  }
}

static void check_names(void) {
  CHECK(strcmp(explain(PTL_OK), "fine") == 0);
  CHECK(strcmp(explain(PTL_IFACE_DUP), "the interface is open already") == 0);
  CHECK(strcmp(ptl_err_str[PTL_EQ_IN_USE], "PTL_EQ_IN_USE") == 0);
  CHECK(strcmp(PtlErrorStr(PTL_VAL_FAILED), "PTL_VAL_FAILED") == 0);
  CHECK(strcmp(PtlErrorStr(PTL_IFACE_DUP), "PTL_IFACE_DUP") == 0);
  CHECK(strcmp(ptl_err_str[PTL_UNKNOWN_ERROR], "PTL_UNKNOWN_ERROR") == 0);
  CHECK(strcmp(ptl_event_str[PTL_EVENT_PUT_END], "PTL_EVENT_PUT_END") == 0);
  CHECK(strcmp(ptl_event_str[PTL_EVENT_UNLINK], "PTL_EVENT_UNLINK") == 0);
}

/* As GASNet and ARMCI open theirs: bridge and interface are variables. */
static ptl_handle_ni_t open_interface(int bridge, int nal, ptl_pid_t pid) {
  ptl_handle_ni_t ni = PTL_INVALID_HANDLE;
  const ptl_interface_t interface = IFACE_FROM_BRIDGE_AND_NALID(bridge, nal);
  const int code = PtlNIInit(interface, pid, NULL, NULL, &ni);
  if (code != PTL_OK && code != PTL_IFACE_DUP) {
    fprintf(stderr, "PtlNIInit: %s (%s)\n", ptl_err_str[code], explain(code));
    exit(1);
  }
  return ni;
}

/* Maps for an interface that is not open yet decide which pid it has. */
static void check_maps(void) {
  ptl_nid_t nid = 1, told_nid = 0;
  ptl_pid_t pid = 77, told_pid = 0;
  ptl_nid_t no_such_node = 2;
  ptl_process_id_t id;
  ptl_handle_ni_t ni;
  CHECK(PtlSetNIDMap(PTL_INVALID_HANDLE, &nid, 1) == PTL_OK);
  CHECK(PtlSetPIDMap(PTL_INVALID_HANDLE, &pid, 1) == PTL_OK);
  ni = open_interface(PTL_BRIDGE_UK, PTL_IFACE_SS, PTL_PID_ANY);
  CHECK(PtlGetId(ni, &id) == PTL_OK);
  CHECK(id.nid == 1 && id.pid == 77);
  CHECK(PtlGetNIDMap(ni, &told_nid, 1) == PTL_OK && told_nid == 1);
  CHECK(PtlGetPIDMap(ni, &told_pid, 1) == PTL_OK && told_pid == 77);
  CHECK(PtlGetRankId(ni, 0, &id) == PTL_OK && id.pid == 77);
  CHECK(PtlSetNIDMap(ni, &nid, 1) == PTL_OK);
  CHECK(PtlSetPIDMap(ni, &pid, 1) == PTL_OK);
  CHECK(open_interface(PTL_BRIDGE_QK, PTL_IFACE_DEFAULT, 77) == ni);
  CHECK(PtlNIFini(ni) == PTL_OK);
  CHECK(PtlNIFini(ni) == PTL_OK);
  CHECK(PtlSetNIDMap(PTL_INVALID_HANDLE, &no_such_node, 1) == PTL_OK);
  CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni) == PTL_FAIL);
  CHECK(PtlSetPIDMap(PTL_INVALID_HANDLE, &pid, 1) == PTL_OK);
  CHECK(PtlNIInit(PTL_IFACE_DEFAULT, 78, NULL, NULL, &ni) == PTL_PID_INVALID);
}

/* As a server does that its clients know by its pid. */
static void check_fixed_pid(void) {
  ptl_process_id_t id;
  ptl_handle_eq_t eq;
  const ptl_handle_ni_t ni = open_interface(PTL_BRIDGE_UK, PTL_IFACE_UTCP, 99);
  CHECK(PtlGetId(ni, &id) == PTL_OK);
  CHECK(id.nid == 1 && id.pid == 99);
  CHECK(PtlEQAlloc(ni, 5, PTL_EQ_HANDLER_NONE, &eq) == PTL_OK);
  CHECK(PtlEQFree(eq) != PTL_EQ_IN_USE);
  CHECK(PtlNIFini(ni) == PTL_OK);
}

static int run_client(void) {
  int interfaces;
  check_names();
  CHECK(PtlInit(&interfaces) == PTL_OK);
  PtlNIDebug(PTL_INVALID_HANDLE, PTL_DBG_ALL | PTL_DBG_NI_ALL);
  CHECK(PtlNIDebug(PTL_INVALID_HANDLE, 0) == (PTL_DBG_ALL | PTL_DBG_NI_ALL));
  check_maps();
  check_fixed_pid();
  PtlFini();
  return 0;
}
