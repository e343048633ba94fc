/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Torii's counters as MPI_T performance variables: there, and moved by messages, if and only if
 * Torii is the transport (argument "torii"). */
#include "check.h"

/* Opens the variable whose name ends in `suffix`; 0: there is none. It counts from now on. */
static int open_counter(const char* suffix, MPI_T_pvar_session session, MPI_T_pvar_handle* handle) {
  int count;
  MPI_T_pvar_get_num(&count);
  for (int i = 0; i < count; ++i) {
    char name[256], text[512];
    int length = sizeof name, text_length = sizeof text, verbosity, class, bind, readonly,
        continuous, atomic, n;
    MPI_Datatype type;
    MPI_T_enum enumeration;
    if (MPI_SUCCESS != MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type,
                                           &enumeration, text, &text_length, &bind, &readonly,
                                           &continuous, &atomic)) {
      continue;
    }
    size_t tail = strlen(suffix);
    if (strlen(name) < tail || 0 != strcmp(name + strlen(name) - tail, suffix)) continue;
    CHECK(class == MPI_T_PVAR_CLASS_COUNTER && continuous && readonly && strlen(text) > 10,
          "%s: class %d, continuous %d, '%s'", name, class, continuous, text);
    CHECK(MPI_SUCCESS == MPI_T_pvar_handle_alloc(session, i, NULL, handle, &n), "%s", name);
    return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  int provided;
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handle;
  start(&argc, &argv, MPI_THREAD_SINGLE);
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_pvar_session_create(&session);
  int torii = argc > 1 && 0 == strcmp(argv[1], "torii");
  int found = open_counter("mtl_torii_eager_sent", session, &handle);
  CHECK(found == torii, "Torii's variable %s", found ? "exists" : "does not exist");
  for (int i = 0; i < 10; ++i) {
    int value;
    MPI_Sendrecv(&i, 1, MPI_INT, world_rank ^ 1, 1, &value, 1, MPI_INT, world_rank ^ 1, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (found) {
    unsigned long long sent = 0;
    int code = MPI_T_pvar_read(session, handle, &sent);
    CHECK(code == MPI_SUCCESS && sent >= 10, "code %d, %llu messages", code, sent);
    MPI_T_pvar_handle_free(session, &handle);
  }
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
  return finish();
}
