/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Waits of which rank 0 is late: whoever waits gets the message, and, where it is to sleep, uses
 * next to none of the processor meanwhile. A caller that only looks is not kept.
 *
 * waiting [SHARE [threads]]: the most of the time that those who wait may use a processor; any
 * second argument asks for MPI_THREAD_MULTIPLE. */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { kTag = 4 };
static const double kLate = 0.6; /* seconds */

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void be_late(void) { usleep((useconds_t)(kLate * 1e6)); }

static void send_to_all(void) {
  for (int i = 1; i < world_size; ++i) MPI_Send(&i, 1, MPI_INT, i, kTag, MPI_COMM_WORLD);
}

static void by_recv(void) {
  int value = 0;
  MPI_Recv(&value, 1, MPI_INT, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(value == world_rank, "got %d", value);
}

static void by_wait(void) {
  int value = 0;
  MPI_Request request;
  MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(value == world_rank, "got %d", value);
}

static void by_probe(void) {
  MPI_Status status;
  MPI_Probe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &status);
  by_recv();
}

static void by_waitsome(void) {
  int value = 0, done = 0, index;
  MPI_Status status;
  MPI_Request request;
  MPI_Irecv(&value, 1, MPI_INT, 0, kTag, MPI_COMM_WORLD, &request);
  MPI_Waitsome(1, &request, &done, &index, &status);
  CHECK(done == 1 && value == world_rank, "%d done, got %d", done, value);
}

static void by_waitany(void) {
  int value = 0, index = -1;
  MPI_Request requests[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Irecv(&value, 1, MPI_INT, 0, kTag, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
  CHECK(index == 1 && value == world_rank, "index %d, got %d", index, value);
}

static void by_mprobe(void) {
  int value = 0;
  MPI_Message message;
  MPI_Mprobe(0, kTag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
  MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
  CHECK(value == world_rank, "got %d", value);
}

static void by_ssend(void) { MPI_Ssend(&world_rank, 1, MPI_INT, 0, kTag, MPI_COMM_WORLD); }

static void receive_from_all(void) {
  for (int i = 1; i < world_size; ++i) {
    int value = 0;
    MPI_Recv(&value, 1, MPI_INT, i, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(value == i, "got %d", value);
  }
}

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

/* `rank0` comes late; the others wait in `others`, at most `share` of the time on a processor. */
static void wait_for_rank_0(const char* what, void (*rank0)(void), void (*others)(void),
                            double share) {
  double cpu, used, time;
  MPI_Barrier(MPI_COMM_WORLD);
  if (0 == world_rank) {
    be_late();
    rank0();
    return;
  }
  cpu = cpu_seconds();
  time = seconds();
  others();
  used = cpu_seconds() - cpu;
  time = seconds() - time;
  CHECK(time > kLate / 2, "%s did not wait: %.3f s", what, time);
  CHECK(used <= share * time, "%s used the processor for %.3f of %.3f s", what, used, time);
}

static long switches(void) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

/* Looks for a message while there is something else to do, for so many seconds each time: it is not
 * kept from that by a sleep. */
static void looks_are_short(double work) {
  int value = 0, done = 0, other;
  long looks = 0, slept = switches();
  double end;
  MPI_Request request;
  MPI_Barrier(MPI_COMM_WORLD);
  if (0 == world_rank) {
    be_late();
    send_to_all();
    return;
  }
  MPI_Irecv(&value, 1, MPI_INT, 0, kTag, MPI_COMM_WORLD, &request);
  for (end = seconds() + 30; !done && seconds() < end; ++looks) {
    const double cpu = cpu_seconds();
    while (cpu_seconds() - cpu < work) {
    }
    if (looks % 2 == 0) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    } else {
      MPI_Iprobe(0, kTag + 1, MPI_COMM_WORLD, &other, MPI_STATUS_IGNORE);
    }
  }
  slept = switches() - slept;
  CHECK(done && value == world_rank, "the message did not arrive");
  CHECK(slept <= 10 + looks / 20, "slept %ld times in %ld looks", slept, looks);
}

int main(int argc, char** argv) {
  const double share = argc > 1 ? atof(argv[1]) : 1e9;
  double cpu, time;
  start(&argc, &argv, argc > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
  wait_for_rank_0("MPI_Recv", send_to_all, by_recv, share);
  wait_for_rank_0("MPI_Wait", send_to_all, by_wait, share);
  wait_for_rank_0("MPI_Waitany", send_to_all, by_waitany, share);
  wait_for_rank_0("MPI_Waitsome", send_to_all, by_waitsome, share);
  wait_for_rank_0("MPI_Probe", send_to_all, by_probe, share);
  wait_for_rank_0("MPI_Mprobe", send_to_all, by_mprobe, share);
  wait_for_rank_0("MPI_Ssend", receive_from_all, by_ssend, share);
  wait_for_rank_0("MPI_Barrier", barrier, barrier, share);
  looks_are_short(200e-6);
  looks_are_short(1e-6);
  MPI_Barrier(MPI_COMM_WORLD);
  if (0 == world_rank) {
    printf("ok\n");
    fflush(stdout);
    be_late();
  }
  cpu = cpu_seconds();
  time = seconds();
  MPI_Finalize();
  cpu = cpu_seconds() - cpu;
  time = seconds() - time;
  if (0 != world_rank && cpu > share * time) {
    fprintf(stderr, "MPI_Finalize used the processor for %.3f of %.3f s\n", cpu, time);
    return 1;
  }
  return 0;
}
