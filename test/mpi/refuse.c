/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * refuse WHAT PROGRAM [ARGUMENT...]: runs the program where the kernel refuses WHAT, as containers
 * do: attach (cross-memory), memfd, seals, or random (getrandom).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define PROGRAM(rules) \
  { sizeof(rules) / sizeof(rules[0]), rules }

static struct sock_filter attach[] = {LOAD(nr), IS(SYS_process_vm_readv, 1, 0),
                                      IS(SYS_process_vm_writev, 0, 1), REFUSE, ALLOW};
static struct sock_filter memfd[] = {LOAD(nr), IS(SYS_memfd_create, 0, 1), REFUSE, ALLOW};
static struct sock_filter seals[] = {
    LOAD(nr), IS(SYS_fcntl, 0, 3), LOAD(args[1]), IS(F_ADD_SEALS, 0, 1), REFUSE, ALLOW};
static struct sock_filter draw[] = {LOAD(nr), IS(SYS_getrandom, 0, 1), REFUSE, ALLOW};
static const struct {
  const char* name;
  struct sock_fprog program;
} all[] = {{"attach", PROGRAM(attach)},
           {"memfd", PROGRAM(memfd)},
           {"seals", PROGRAM(seals)},
           {"random", PROGRAM(draw)}};

int main(int argc, char** argv) {
  const size_t count = sizeof(all) / sizeof(all[0]);
  size_t i = 0;
  while (argc > 2 && i < count && strcmp(argv[1], all[i].name) != 0) ++i;
  if (argc < 3 || i == count) {
    fprintf(stderr, "usage: refuse attach|memfd|seals|random PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all[i].program) != 0) {
    perror("refuse: seccomp");
    return 77;
  }
  execvp(argv[2], argv + 2);
  perror(argv[2]);
  return 127;
}
