// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The way of a small message costs no allocation, no lock and no system call. Two processes
// exchange messages over the shm driver while the allocator and pthread_mutex_lock are counted
// by wrappers, and every system call is refused and counted by a seccomp filter. One system call
// is due: the look at the peers' process descriptors, which time demands and not a message.
#include <dlfcn.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "core/torii.h"

// glibc's allocator behind the names that are wrapped below.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {

struct Counts {
  uint64_t allocations;
  uint64_t locks;
  uint64_t looks;         // poll(), at most once in kLookNs
  uint64_t system_calls;  // all others
  uint64_t ns;            // that the section took
  long last_system_call;
};

bool g_counting = false;
Counts g_counts;

void count_allocation() { g_counts.allocations += g_counting; }

}  // namespace

extern "C" {

void* malloc(size_t bytes) {
  count_allocation();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  count_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  count_allocation();
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out ? 0 : ENOMEM;
}
void free(void* memory) {
  if (memory) count_allocation();
  __libc_free(memory);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static Lock real = nullptr;
  if (!real) real = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  g_counts.locks += g_counting;
  return real(mutex);
}

}  // extern "C"

namespace {

constexpr int kMessages = 10000;
constexpr int kWindow = 16;
constexpr int kWarmUp = 2000;
constexpr size_t kBytes = 40;
constexpr uint64_t kLookNs = 50'000'000;
constexpr int kNoFilter = 3;  // exit status: the machine does not allow the filter

// The memory that the test and its two players share.
struct Shared {
  std::atomic<int> ready;
  std::atomic<int> finished;
  unsigned char address[2][1024];
  size_t address_bytes[2];
  Counts counts[2];
};

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

// A processor for which Linux is young has no poll.
bool is_poll(long call) {
#ifdef SYS_poll
  if (call == SYS_poll) return true;
#endif
  return call == SYS_ppoll;
}

void on_system_call(int, siginfo_t* info, void* context) {
  if (is_poll(info->si_syscall)) {
    ++g_counts.looks;
  } else {
    ++g_counts.system_calls;
    g_counts.last_system_call = info->si_syscall;
  }
  mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  machine.gregs[REG_RAX] = -ENOSYS;
#elif defined(__aarch64__)
  machine.regs[0] = uint64_t(-ENOSYS);
#else
#error "say where this machine returns the result of a system call"
#endif
}

// From here on a system call does nothing but be counted; only _exit is left.
bool refuse_system_calls() {
  struct sigaction action {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const sock_fprog filter = {std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Counts what `section` does; the process must end with end_section().
template <typename Section>
Counts count_in(Section section) {
  if (!refuse_system_calls()) _exit(kNoFilter);
  g_counts = {};
  const uint64_t start = now_ns();
  g_counting = true;
  section();
  g_counting = false;
  g_counts.ns = now_ns() - start;
  return g_counts;
}

// One side of the exchange. Ends the process with a message if anything fails before counting.
class Player {
 public:
  Player(Shared& shared, int side) : shared_(shared), side_(side) {
    setenv("TORII_DRIVERS", "shm", 1);
    torii_options_t options{};
    options.struct_bytes = sizeof(options);
    options.job = 4711;
    options.rank = options.local_rank = uint32_t(side);
    options.size = options.local_size = 2;
    check(torii_open(&options, &ni_));
    shared.address_bytes[side] = torii_address(ni_, shared.address[side], 1024);
    shared.ready.fetch_add(1);
    while (shared.ready.load() < 2) {
    }
    check(torii_connect(ni_, shared.address[1 - side], shared.address_bytes[1 - side], &peer_));
    check(torii_port_open(ni_, 0, &port_));
  }

  // A round trip: the receive is posted before the other side can have sent.
  void bounce() {
    if (side_ == 0) send();
    await(1);
    post(1);
    if (side_ == 1) send();
  }
  // kWindow messages each way at once.
  void exchange() {
    for (int i = 0; i < kWindow; ++i) send();
    await(kWindow);
    post(kWindow);
  }
  void post(int count) {
    for (int i = 0; i < count; ++i) {
      torii_data_t data{};
      data.base = target_;
      data.bytes = kBytes;
      torii_result_t result;
      const int code = torii_recv(port_, peer_, 7, 0, &data, received, this, nullptr, &result);
      if (code == TORII_OK) ++received_;
      if (code < 0) failed_ = true;
    }
  }
  void play(int messages) {
    const int bounces = messages / 10;  // few: each may cost a time slice on a busy machine
    for (int i = 0; i < bounces; ++i) bounce();
    for (int i = bounces; i < messages; i += kWindow) exchange();
  }
  bool failed() const { return failed_; }
  // Both sides have counted; whoever is first must keep handing over what the other waits for.
  void part() {
    shared_.finished.fetch_add(1);
    while (shared_.finished.load() < 2) torii_progress(ni_);
  }

 private:
  static void check(int code) {
    if (code >= 0) return;
    fprintf(stderr, "%s\n", torii_error());
    _exit(1);
  }
  static void received(void* arg, const torii_result_t* result) {
    auto* self = static_cast<Player*>(arg);
    ++self->received_;
    if (result->code != TORII_OK || result->bytes != kBytes) self->failed_ = true;
  }
  static void sent(void* arg, const torii_result_t* result) {
    if (result->code != TORII_OK) static_cast<Player*>(arg)->failed_ = true;
  }
  void send() {
    short_way_ = !short_way_;
    if (short_way_ && torii_send_now(port_, peer_, 7, 0, source_, kBytes) == TORII_OK) return;
    torii_data_t data{};
    data.base = source_;
    data.bytes = kBytes;
    if (torii_send(port_, peer_, TORII_STANDARD, 7, 0, &data, sent, this, nullptr) < 0)
      failed_ = true;
  }
  void await(uint64_t count) {
    expected_ += count;
    while (received_ < expected_ && !failed_) torii_progress(ni_);
  }

  Shared& shared_;
  int side_;
  torii_ni_t* ni_ = nullptr;
  torii_peer_t* peer_ = nullptr;
  torii_port_t* port_ = nullptr;
  unsigned char source_[kBytes] = {};
  unsigned char target_[kBytes] = {};
  uint64_t received_ = 0;
  uint64_t expected_ = 0;
  bool failed_ = false;
  bool short_way_ = false;
};

// Core `index` of those this process may use, if there are so many.
void bind_to_core(int index) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || index-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

[[noreturn]] void run_player(Shared& shared, int side) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  bind_to_core(side);
  auto* player = new Player(shared, side);
  player->post(2 * kWindow);
  player->play(kWarmUp);
  const Counts counts = count_in([&] { player->play(kMessages); });
  shared.counts[side] = counts;
  player->part();
  _exit(player->failed() ? 1 : 0);
}

int status_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class HotPath : public ::testing::Test {
 protected:
  void SetUp() override {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    shared_ = new (memory) Shared{};
    const Counts clock = counted([] { (void)now_ns(); });
    if (IsSkipped()) return;
    if (clock.system_calls > 0)
      GTEST_SKIP() << "reading the clock is a system call on this machine";
  }
  void TearDown() override { munmap(shared_, sizeof(Shared)); }

  // The counts of a child in `section`.
  template <typename Section>
  Counts counted(Section section) {
    const pid_t child = fork();
    if (child == 0) {
      shared_->counts[0] = count_in(section);
      _exit(0);
    }
    const int status = status_of(child);
    if (status == kNoFilter) {
      [] { GTEST_SKIP() << "seccomp filters are not allowed here"; }();
    } else {
      EXPECT_EQ(status, 0);
    }
    return shared_->counts[0];
  }

  Shared* shared_ = nullptr;
};

TEST_F(HotPath, TheCountersCount) {
  static std::atomic<void*> memory;  // keeps the compiler from leaving the pair out
  const Counts allocation = counted([] {
    memory = malloc(100);
    free(memory);
  });
  EXPECT_EQ(allocation.allocations, 2u);
  EXPECT_EQ(allocation.locks, 0u);
  EXPECT_EQ(allocation.system_calls, 0u);
  const Counts object = counted([] {
    memory = new char[64];
    delete[] static_cast<char*>(memory.load());
  });
  EXPECT_EQ(object.allocations, 2u);
  static std::mutex mutex;
  const Counts lock = counted([] { std::lock_guard<std::mutex> guard(mutex); });
  EXPECT_EQ(lock.allocations, 0u);
  EXPECT_EQ(lock.locks, 1u);
  const Counts call = counted([] { (void)getppid(); });
  EXPECT_EQ(call.system_calls, 1u);
  EXPECT_EQ(call.last_system_call, SYS_getppid);
  EXPECT_EQ(call.looks, 0u);
  EXPECT_EQ(call.locks, 0u);
  const Counts look = counted([] { (void)poll(nullptr, 0, 0); });
  EXPECT_EQ(look.system_calls, 0u);
  EXPECT_EQ(look.looks, 1u);
}

TEST_F(HotPath, SmallMessagesCostNothingExtra) {
  pid_t children[2];
  for (int side = 0; side < 2; ++side) {
    children[side] = fork();
    if (children[side] == 0) run_player(*shared_, side);
  }
  ASSERT_EQ(status_of(children[0]), 0);
  ASSERT_EQ(status_of(children[1]), 0);
  for (const Counts& counts : shared_->counts) {
    EXPECT_EQ(counts.allocations, 0u);
    EXPECT_EQ(counts.locks, 0u);
    EXPECT_EQ(counts.system_calls, 0u) << "the last one has number " << counts.last_system_call;
    EXPECT_LE(counts.looks, counts.ns / kLookNs + 1);
  }
}

}  // namespace
