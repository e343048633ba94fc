// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Messages of 8 bytes between ranks 0 and 1, made for counting instructions with callgrind: what
// is counted happens in functions named measured_*, in which neither side ever waits. The ranks
// take turns, and they hand the turn over outside of MPI, by a byte through a pipe of the file
// system: a rank whose turn it is not is asleep in read(). A receiver's turn comes when the
// sender's is over, so that all it waits for has arrived.
//
//   mpi_instructions FOLDER WINDOW WINDOWS
//
// Four phases, each ended by a call of phase_end: WINDOWS windows of WINDOW messages by
// MPI_Irecv, MPI_Isend and MPI_Waitall, ten times as many; then single messages by MPI_Send and
// MPI_Recv, 10 * WINDOWS and 100 * WINDOWS. FOLDER is for the two pipes.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi_bench.h"

#define MEASURED __attribute__((noinline, noclone))

enum { kTag = 1, kMaxWindow = 64 };

static long out[kMaxWindow];
static long in[kMaxWindow];
static MPI_Request requests[kMaxWindow];
static int turn_in, turn_out;

void measured_receives(int window);
void measured_sends(int window);
void measured_wait(int window);
void measured_send(void);
void measured_receive(void);
void phase_end(void);

MEASURED void measured_receives(int window) {
  for (int i = 0; i < window; ++i)
    MPI_Irecv(&in[i], 8, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &requests[i]);
}

MEASURED void measured_sends(int window) {
  for (int i = 0; i < window; ++i)
    MPI_Isend(&out[i], 8, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &requests[i]);
  MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
}

MEASURED void measured_wait(int window) { MPI_Waitall(window, requests, MPI_STATUSES_IGNORE); }

MEASURED void measured_send(void) { MPI_Send(out, 8, MPI_BYTE, 1, kTag, MPI_COMM_WORLD); }

MEASURED void measured_receive(void) {
  MPI_Recv(in, 8, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

MEASURED void phase_end(void) { __asm__ volatile("" ::: "memory"); }

static void give_turn(void) {
  if (write(turn_out, "x", 1) != 1) fail("mpi_instructions: write", errno);
}

static void take_turn(void) {
  char byte;
  if (read(turn_in, &byte, 1) != 1) fail("mpi_instructions: read", errno);
}

static void check(int window, long first) {
  for (int i = 0; i < window; ++i)
    if (in[i] != first + i) fail("mpi_instructions: wrong bytes", i);
}

static void windows(int window, int count) {
  for (int i = 0; i < count; ++i) {
    if (rank == 0) {
      for (int k = 0; k < window; ++k) out[k] = i + k;
      take_turn();
      measured_sends(window);
      give_turn();
    } else {
      measured_receives(window);
      give_turn();
      take_turn();
      measured_wait(window);
      check(window, i);
    }
  }
  phase_end();
}

static void singles(int count) {
  for (int i = 0; i < count; ++i) {
    if (rank == 0) {
      out[0] = i;
      take_turn();
      measured_send();
      give_turn();
    } else {
      give_turn();
      take_turn();
      measured_receive();
      check(1, i);
    }
  }
  phase_end();
}

// Both ends are opened for reading and writing, so that opening waits for nobody.
static void open_pipes(const char* folder) {
  int pipes[2];
  for (int i = 0; i < 2; ++i) {
    char name[4096];
    snprintf(name, sizeof(name), "%s/turn-of-rank-%d", folder, i);
    if (mkfifo(name, 0600) != 0 && errno != EEXIST) fail("mpi_instructions: mkfifo", errno);
    pipes[i] = open(name, O_RDWR | O_CLOEXEC);
    if (pipes[i] < 0) fail("mpi_instructions: open", errno);
  }
  turn_in = pipes[rank];
  turn_out = pipes[1 - rank];
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 2);
  const int window = argc > 3 ? atoi(argv[2]) : 0, count = argc > 3 ? atoi(argv[3]) : 0;
  if (window < 1 || window > kMaxWindow || count < 1)
    fail("usage: mpirun -n 2 mpi_instructions FOLDER WINDOW WINDOWS", window);
  open_pipes(argv[1]);
  MPI_Barrier(MPI_COMM_WORLD);
  windows(window, count);
  windows(window, 10 * count);
  singles(10 * count);
  singles(100 * count);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
