/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * A complete program for torii.h: two processes greet each other by tagged messages, then one reads
 * and writes memory of the other. It starts both by fork, and a pair of sockets carries what a
 * launcher carries in a real job: each process's address. Compiled and started like this:
 *
 *   cc -o torii_pair torii_pair.c $(pkg-config --cflags --libs torii) \
 *     $(pkg-config --variable=rpath torii)
 *   ./torii_pair
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <torii.h>
#include <unistd.h>

enum { kAddressMax = 1024, kGreetingBytes = 80 };
enum { kGreeting = 1, kKey = 2, kWritten = 3 }; /* tags of messages */
static const uint64_t kMemoryTag = 77;          /* who accesses the memory has to know it */

static uint32_t rank;
static torii_ni_t* ni;
static torii_port_t* port;
static torii_peer_t* peer;

static void fail(const char* call, const char* why) {
  fprintf(stderr, "rank %u: %s: %s\n", rank, call, why);
  exit(1);
}

/* A function of Torii that returned `code`. */
static void check(const char* call, int code) {
  if (code != TORII_OK) fail(call, torii_error());
}

/* Waits for the end of an operation that returned `code` and tells `flag`. */
static void finish(const char* call, int code, torii_flag_t* flag) {
  if (code < 0) fail(call, torii_error());
  if (code == TORII_OK) return;
  while (!__atomic_load_n(&flag->done, __ATOMIC_ACQUIRE)) torii_wait_step(ni);
  if (flag->result.code != TORII_OK) fail(call, torii_code_text(flag->result.code));
}

static torii_data_t contiguous(void* base, size_t bytes) {
  torii_data_t data = {.layout = TORII_CONTIGUOUS, .base = base, .bytes = bytes};
  return data;
}

static void send_message(uint64_t tag, void* base, size_t bytes) {
  const torii_data_t data = contiguous(base, bytes);
  torii_flag_t flag = {0};
  finish("torii_send",
         torii_send(port, peer, TORII_STANDARD, tag, 0, &data, torii_flag, &flag, NULL), &flag);
}

/* Returns the number of bytes that came. */
static size_t receive_message(uint64_t tag, void* base, size_t bytes) {
  const torii_data_t data = contiguous(base, bytes);
  torii_flag_t flag = {0};
  finish("torii_recv",
         torii_recv(port, peer, tag, 0, &data, torii_flag, &flag, NULL, &flag.result), &flag);
  return flag.result.bytes;
}

/* Gives the own address to the other process, and connects to the one that it gives. */
static void meet(int other) {
  char address[kAddressMax];
  size_t bytes = torii_address(ni, address, sizeof address);
  if (send(other, address, bytes, 0) != (ssize_t)bytes) fail("send", strerror(errno));
  const ssize_t got = recv(other, address, sizeof address, 0);
  if (got <= 0) fail("recv", "the other process ended");
  check("torii_connect", torii_connect(ni, address, (size_t)got, &peer));
}

static void greet(void) {
  char greeting[kGreetingBytes] = "", heard[kGreetingBytes];
  snprintf(greeting, sizeof greeting, "rank %u, process %d", rank, (int)getpid());
  send_message(kGreeting, greeting, sizeof greeting);
  receive_message(kGreeting, heard, sizeof heard);
  printf("rank %u heard from %s\n", rank, heard);
}

/* Rank 0 lets the other one access a number. It makes progress meanwhile, in receive_message. */
static void own_memory(void) {
  uint64_t number = 20;
  char key[TORII_KEY_MAX], word;
  torii_export_t* exported;
  torii_flag_t flag = {0};
  check("torii_export", torii_export(ni, &number, sizeof number, TORII_MAY_READ | TORII_MAY_WRITE,
                                     kMemoryTag, &exported));
  send_message(kKey, key, torii_export_key(exported, key, sizeof key));
  receive_message(kWritten, &word, sizeof word);
  finish("torii_unexport", torii_unexport(exported, torii_flag, &flag), &flag);
  printf("rank 0 finds %llu in its memory\n", (unsigned long long)number);
}

static void access_memory(void) {
  uint64_t number = 0;
  char key[TORII_KEY_MAX], word = 0;
  torii_import_t* import;
  torii_flag_t read = {0}, written = {0};
  const size_t bytes = receive_message(kKey, key, sizeof key);
  check("torii_import", torii_import(ni, peer, key, bytes, kMemoryTag, &import));
  finish("torii_read", torii_read(import, 0, &number, sizeof number, torii_flag, &read), &read);
  printf("rank 1 reads %llu\n", (unsigned long long)number);
  number += 1;
  finish("torii_write",
         torii_write(import, 0, &number, sizeof number, TORII_COMPLETE_REMOTE, torii_flag, &written),
         &written);
  check("torii_import_drop", torii_import_drop(import));
  send_message(kWritten, &word, sizeof word);
}

static void take_part(uint64_t job, int other) {
  const torii_options_t options = {.struct_bytes = sizeof options,
                                   .job = job,
                                   .rank = rank,
                                   .size = 2,
                                   .local_rank = rank,
                                   .local_size = 2};
  check("torii_open", torii_open(&options, &ni));
  check("torii_port_open", torii_port_open(ni, 0, &port));
  meet(other);
  greet();
  if (rank == 0) {
    own_memory();
  } else {
    access_memory();
  }
  check("torii_port_close", torii_port_close(port));
  check("torii_close", torii_close(ni));
}

int main(void) {
  int ends[2], status = 0;
  const uint64_t job = (uint64_t)getpid();
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) fail("socketpair", strerror(errno));
  const pid_t child = fork();
  if (child < 0) fail("fork", strerror(errno));
  rank = child == 0;
  close(ends[!rank]);
  take_part(job, ends[rank]);
  if (rank == 0 && (waitpid(child, &status, 0) != child || status != 0))
    fail("waitpid", "rank 1 failed");
  return 0;
}
