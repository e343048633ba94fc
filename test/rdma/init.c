/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The first process of a guest, linked statically. It loads the modules of the initial file system,
 * mounts the machine's files read-only by 9p, and the folder for results at its own place, runs one
 * script there, leaves its exit status in the file "status", and switches the guest off. All it is
 * told comes as words of the kernel's command line, which the kernel puts into the environment:
 *
 *   torii_work=FOLDER     for results, read and write
 *   torii_shares=A:B      folders that must be seen although they lie where the guest's own files
 * do torii_job=SCRIPT      for bash torii_host=NAME
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOT "/machine"  /* what the script sees */
#define BELOW "/covered" /* the machine's files once more, for what is covered in ROOT */

/* Says what failed, and switches the guest off: the console is all that is left of it. */
static void fail(const char* what, const char* which) {
  printf("guest: %s %s: %s\n", what, which, strerror(errno));
  fflush(stdout);
  sync();
  reboot(RB_POWER_OFF);
  _exit(1);
}

static void attach(const char* what, const char* where, const char* type, unsigned long flags,
                   const char* options) {
  if (mount(what, where, type, flags, options) != 0) fail("cannot mount", where);
}

/* The modules in /modules/order, each behind those that it needs. */
static void load_modules(void) {
  char name[256], path[512];
  FILE* const order = fopen("/modules/order", "r");
  if (!order) fail("cannot open", "/modules/order");
  while (fscanf(order, "%255s", name) == 1) {
    snprintf(path, sizeof path, "/modules/%s", name);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) fail("cannot open", path);
    /* A processor without its instructions takes no module that is written for them. */
    if (syscall(SYS_finit_module, file, "", 0) != 0 && errno != ENODEV) fail("cannot load", name);
    close(file);
  }
  fclose(order);
}

/* Makes a folder and those above it, where that is possible. */
static void make_folders(const char* path) {
  char name[PATH_MAX];
  snprintf(name, sizeof name, "%s", path);
  for (char* at = name + 1; (at = strchr(at, '/')); at++) {
    *at = '\0';
    mkdir(name, 0755);
    *at = '/';
  }
  mkdir(name, 0755);
}

static void in_root(char* out, const char* path) { snprintf(out, PATH_MAX, "%s%s", ROOT, path); }

/* Files of the guest's own, over the machine's. */
static void cover(void) {
  attach("proc", ROOT "/proc", "proc", 0, "");
  attach("sys", ROOT "/sys", "sysfs", 0, "");
  attach("dev", ROOT "/dev", "devtmpfs", 0, "");
  mkdir(ROOT "/dev/shm", 01777);
  mkdir(ROOT "/dev/pts", 0755);
  if (symlink("/proc/self/fd", ROOT "/dev/fd") != 0) fail("cannot make", "/dev/fd");
  attach("shm", ROOT "/dev/shm", "tmpfs", 0, "mode=1777");
  attach("pts", ROOT "/dev/pts", "devpts", 0, "");
  attach("tmp", ROOT "/tmp", "tmpfs", 0, "mode=1777");
  attach("run", ROOT "/run", "tmpfs", 0, "mode=755");
}

static void share(const char* list) {
  char names[4096], below[PATH_MAX], here[PATH_MAX];
  snprintf(names, sizeof names, "%s", list);
  for (char* name = strtok(names, ":"); name; name = strtok(NULL, ":")) {
    snprintf(below, sizeof below, "%s%s", BELOW, name);
    in_root(here, name);
    make_folders(here);
    attach(below, here, "", MS_BIND, "");
  }
}

static const char* word(const char* name) {
  const char* const value = getenv(name);
  errno = EINVAL;
  if (!value) fail("the command line lacks", name);
  return value;
}

/* In the child: becomes bash with the script, in the machine's files. */
static void run(const char* job) {
  char* const words[] = {"bash", (char*)job, NULL};
  char* const environment[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                               "HOME=/tmp", "LANG=C", "USER=root", NULL};
  if (chroot(ROOT) != 0 || chdir("/tmp") != 0) fail("cannot enter", ROOT);
  execve("/bin/bash", words, environment);
  fail("cannot execute", "/bin/bash");
}

int main(void) {
  const char* const nine = "trans=virtio,version=9p2000.L,msize=262144";
  char here[PATH_MAX], path[PATH_MAX + 16], options[128];
  int status = 0;
  attach("dev", "/dev", "devtmpfs", 0, "");
  load_modules();
  snprintf(options, sizeof options, "%s,cache=loose", nine);
  attach("machine", ROOT, "9p", MS_RDONLY, options);
  attach(ROOT, BELOW, "", MS_BIND, "");
  cover();
  share(word("torii_shares"));
  in_root(here, word("torii_work"));
  make_folders(here);
  attach("work", here, "9p", 0, nine);
  sethostname(word("torii_host"), strlen(word("torii_host")));
  printf("guest: runs the job\n");
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) run(word("torii_job"));
  for (pid_t ended = 0; ended != child;) ended = wait(&status);
  snprintf(path, sizeof path, "%s/status", here);
  FILE* const file = fopen(path, "w");
  if (!file) fail("cannot write", path);
  fprintf(file, "%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  fclose(file);
  printf("guest: done\n");
  fflush(stdout);
  sync();
  reboot(RB_POWER_OFF);
  return 1;
}
