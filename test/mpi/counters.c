/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Torii's counters as MPI_T performance variables: there, and moved by messages, if and only if
 * Torii is the transport (argument "torii"). */
#include "check.h"

/* Value of the variable whose name ends in `suffix`; -1: there is none. */
static long long counter(const char* suffix) {
  int count;
  MPI_T_pvar_get_num(&count);
  for (int i = 0; i < count; ++i) {
    char name[256], text[512];
    int length = sizeof name, text_length = sizeof text, verbosity, class, bind, readonly,
        continuous, atomic;
    MPI_Datatype type;
    MPI_T_enum enumeration;
    if (MPI_SUCCESS != MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type,
                                           &enumeration, text, &text_length, &bind, &readonly,
                                           &continuous, &atomic)) {
      continue;
    }
    size_t tail = strlen(suffix);
    if (strlen(name) < tail || 0 != strcmp(name + strlen(name) - tail, suffix)) continue;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    unsigned long long value = 0;
    int n;
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &n);
    if (!continuous) MPI_T_pvar_start(session, handle);
    int code = MPI_T_pvar_read(session, handle, &value);
    CHECK(code == MPI_SUCCESS, "reading %s: %d", name, code);
    MPI_T_pvar_handle_free(session, &handle);
    MPI_T_pvar_session_free(&session);
    return (long long)value;
  }
  return -1;
}

int main(int argc, char** argv) {
  int provided;
  start(&argc, &argv, MPI_THREAD_SINGLE);
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  int torii = argc > 1 && 0 == strcmp(argv[1], "torii");
  long long before = counter("mtl_torii_eager_sent");
  for (int i = 0; i < 10; ++i) {
    int value;
    MPI_Sendrecv(&i, 1, MPI_INT, world_rank ^ 1, 1, &value, 1, MPI_INT, world_rank ^ 1, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  long long after = counter("mtl_torii_eager_sent");
  if (torii)
    CHECK(after >= before + 10, "messages before %lld, after %lld", before, after);
  else
    CHECK(before == -1 && after == -1, "Torii's variable exists: %lld, %lld", before, after);
  MPI_T_finalize();
  return finish();
}
