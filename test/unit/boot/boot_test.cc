// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The boot room without a launcher: a PMI-1 launcher played by a thread, and jobs started by hand
// as child processes.
#include "core/boot/boot.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/boot/launcher.h"

using namespace torii;

namespace {

std::vector<std::byte> some_bytes(size_t n, unsigned seed) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 31 + seed);
  return bytes;
}

void set_deadline(const char* ms) {
  std::string why;
  EXPECT_EQ(param_set("boot_deadline_ms", ms, "test", &why), Status::ok) << why;
}

// --- PMI-1 ----------------------------------------------------------------------------------

// Plays mpiexec for one process of a job of two; `edit` may change an answer (or end the talk by
// making it empty).
class FakeLauncher {
 public:
  using Edit = std::function<void(const std::string& command, std::string* answer)>;

  explicit FakeLauncher(Edit edit = {}) : edit_(std::move(edit)) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds_)) abort();
    setenv("PMI_FD", std::to_string(fds_[0]).c_str(), 1);
    setenv("PMI_SIZE", "2", 1);
    setenv("PMI_RANK", "0", 1);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeLauncher() {
    shutdown(fds_[1], SHUT_RDWR);
    thread_.join();
    close(fds_[1]);
    unsetenv("PMI_FD");
    unsetenv("PMI_SIZE");
    unsetenv("PMI_RANK");
  }
  std::map<std::string, std::string> values;
  bool finalized = false;

 private:
  static std::string field(const std::string& line, const std::string& key) {
    size_t at = line.find(key + "=");
    if (at == std::string::npos) return "";
    at += key.size() + 1;
    return line.substr(at, line.find(' ', at) - at);
  }

  std::string answer(const std::string& line) {
    const std::string command = field(line, "cmd");
    if (command == "init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    if (command == "get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_1";
    if (command == "get_maxes") return "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=40";
    if (command == "barrier_in") return "cmd=barrier_out";
    if (command == "finalize") {
      finalized = true;
      return "cmd=finalize_ack";
    }
    if (command == "put") {
      values[field(line, "key")] = field(line, "value");
      return "cmd=put_result rc=0 msg=success";
    }
    std::string key = field(line, "key");
    if (key == "PMI_process_mapping")
      return "cmd=get_result rc=0 msg=success value=(vector,(0,2,1))";
    if (key == "torii-1-0") return "cmd=get_result rc=0 msg=success value=3:0a0b";
    if (key == "torii-1-1") return "cmd=get_result rc=0 msg=success value=0c";
    if (values.count(key)) return "cmd=get_result rc=0 msg=success value=" + values[key];
    return "cmd=get_result rc=-1 msg=key_not_found value=unknown";
  }

  void serve() {
    std::string input;
    char buffer[4096];
    ssize_t n;
    while ((n = read(fds_[1], buffer, sizeof buffer)) > 0) {
      input.append(buffer, static_cast<size_t>(n));
      for (size_t end; (end = input.find('\n')) != std::string::npos; input.erase(0, end + 1)) {
        std::string line = input.substr(0, end);
        std::string out = answer(line) + "\n";
        if (edit_) edit_(line, &out);
        if (out.empty()) {
          shutdown(fds_[1], SHUT_RDWR);
        } else if (write(fds_[1], out.data(), out.size()) < 0) {
          return;
        }
      }
    }
  }

  int fds_[2];
  Edit edit_;
  std::thread thread_;
};

TEST(Pmi1, PublishesAndLooksUpInPieces) {
  FakeLauncher launcher;
  std::string why;
  auto boot = open_boot(&why);
  ASSERT_TRUE(boot) << why;
  EXPECT_STREQ(boot->info().launcher, "PMI-1");
  EXPECT_EQ(boot->info().size, 2u);
  EXPECT_EQ(boot->info().local_size, 1u);
  EXPECT_EQ(boot->info().job, job_number("pmi1:kvs_1"));
  std::vector<std::byte> mine = some_bytes(100, 9), got;
  EXPECT_EQ(boot->lookup(1, &got, &why), Status::invalid) << "before publish";
  ASSERT_EQ(boot->publish(mine, &why), Status::ok) << why;
  for (auto& [key, value] : launcher.values) EXPECT_LT(value.size(), 40u) << key;
  ASSERT_EQ(boot->lookup(0, &got, &why), Status::ok) << why;
  EXPECT_EQ(got, mine);
  ASSERT_EQ(boot->lookup(1, &got, &why), Status::ok) << why;
  EXPECT_EQ(got, (std::vector<std::byte>{std::byte{10}, std::byte{11}, std::byte{12}}));
  EXPECT_EQ(boot->lookup(2, &got, &why), Status::invalid);
  EXPECT_EQ(why, "rank 2 does not exist in a job of 2");
  const ProcessMap* map = nullptr;
  ASSERT_EQ(boot->process_map(&map, &why), Status::ok) << why;
  EXPECT_EQ(map->node(1), 1u);
  mine.assign(70, std::byte{7});
  ASSERT_EQ(boot->publish(mine, &why), Status::ok) << why;
  ASSERT_EQ(boot->lookup(0, &got, &why), Status::ok) << why;
  EXPECT_EQ(got, mine) << "what was published last";
  EXPECT_NE(boot->lookup(1, &got, &why), Status::ok) << "rank 1 has published once only";
  boot.reset();
  EXPECT_TRUE(launcher.finalized);
}

// The complaint if the launcher's answer to `command` is replaced by `answer`.
struct Misbehaviour {
  const char* command;
  const char* answer;
  const char* reason;
};

TEST(Pmi1, ABadLauncherIsAnError) {
  const auto begin = std::chrono::steady_clock::now();
  const Misbehaviour cases[] = {
      {"cmd=init ", "", "connection to the PMI launcher is lost"},
      {"cmd=init ", "cmd=response_to_init rc=-1\n", "does not speak PMI version 1.1"},
      {"cmd=init ", "hello\n", "where cmd=response_to_init was expected"},
      {"cmd=get_my_kvsname", "cmd=my_kvsname\n", "lacks kvsname"},
      {"cmd=get_maxes", "cmd=maxes vallen_max=8\n", "32 are needed"},
      {"key=PMI_process_mapping", "cmd=get_result rc=0 value=(vector,(0,0,0))\n", "is malformed"},
      {"key=PMI_process_mapping", "cmd=get_result rc=-1 value=unknown\n", "does not know"},
      {"cmd=put", "cmd=put_result rc=-1\n", "did not take the address"},
      {"cmd=barrier_in", "cmd=nothing\n", "where cmd=barrier_out was expected"},
      {"cmd=barrier_in", "", "is lost"},
      {"cmd=barrier_in", "cmd=barrier", "not all 2 processes of the job came within 200 ms"},
      {"key=torii-1-1", "cmd=get_result rc=0 value=0c0d\n", "rank 1 is malformed"},
      {"key=torii-1-0", "cmd=get_result rc=0 value=5000:00\n", "rank 1 is malformed"},
      {"key=torii-1-0", "cmd=get_result rc=-1 value=unknown\n", "does not know torii-1-0"},
  };
  for (const Misbehaviour& c : cases) {
    FakeLauncher launcher([&](const std::string& line, std::string* answer) {
      if (line.find(c.command) != std::string::npos) *answer = c.answer;
    });
    std::string why;
    std::vector<std::byte> got;
    auto boot = open_boot(&why);
    if (strstr(c.reason, "200 ms")) set_deadline("200");
    if (boot && boot->publish(some_bytes(4, 0), &why) == Status::ok) {
      EXPECT_NE(boot->lookup(1, &got, &why), Status::ok) << c.command << c.answer;
    }
    EXPECT_NE(why.find(c.reason), std::string::npos) << c.command << " " << c.answer << why;
    set_deadline("30000");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
}

// Portals counts nodes from 1 on, and the largest number means any node.
TEST(Pmi1, NumbersOfNodesLeaveRoomForOneMore) {
  for (const auto& [node, good] : {std::pair(kNodeMax, true), std::pair(kNodeMax + 1, false)}) {
    FakeLauncher launcher([node = node](const std::string& line, std::string* answer) {
      if (line.find("key=PMI_process_mapping") == std::string::npos) return;
      *answer = format_text("cmd=get_result rc=0 value=(vector,(%u,1,2))\n", node);
    });
    std::string why;
    const ProcessMap* map = nullptr;
    auto boot = open_boot(&why);
    ASSERT_TRUE(boot) << why;
    ASSERT_EQ(boot->publish({}, &why), Status::ok) << why;
    EXPECT_EQ(boot->process_map(&map, &why) == Status::ok, good) << why;
    if (good) continue;
    EXPECT_NE(why.find("rank 0 is on node 4294967294; the largest"), std::string::npos) << why;
  }
}

TEST(Pmi1, BadVariablesAreErrors) {
  std::string why;
  FakeLauncher launcher;
  setenv("PMI_RANK", "2", 1);
  EXPECT_FALSE(open_boot(&why));
  EXPECT_EQ(why, "PMI_RANK=2: expected an integer from 0 to 1");
  setenv("PMI_FD", "999", 1);
  setenv("PMI_RANK", "1", 1);
  EXPECT_FALSE(open_boot(&why));
  EXPECT_NE(why.find("PMI_FD=999 is not open"), std::string::npos) << why;
}

// --- by hand --------------------------------------------------------------------------------

using Environment = std::map<std::string, std::string>;

// Children that run a function and answer with a text.
class Children {
 public:
  void start(const Environment& environment, const std::function<std::string()>& work) {
    int fds[2];
    if (pipe(fds)) abort();
    pid_t pid = fork();
    if (pid == 0) {
      close(fds[0]);
      for (auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      std::string text = work();
      if (write(fds[1], text.data(), text.size()) < 0) _exit(1);
      _exit(0);
    }
    close(fds[1]);
    running_.push_back({pid, fds[0]});
  }
  // The texts, in the order of starting.
  std::vector<std::string> join() {
    std::vector<std::string> texts;
    for (auto [pid, fd] : running_) {
      std::string& text = texts.emplace_back();
      char buffer[1024];
      for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) text.append(buffer, n);
      close(fd);
      waitpid(pid, nullptr, 0);
    }
    running_.clear();
    return texts;
  }

 private:
  std::vector<std::pair<pid_t, int>> running_;
};

std::string fresh_job() {
  static int count = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

Environment by_hand(const std::string& job, int rank, int size) {
  return {{"TORII_JOB", job},
          {"TORII_RANK", std::to_string(rank)},
          {"TORII_SIZE", std::to_string(size)}};
}

// The whole start of one process; "ok" or what was wrong.
std::string start_up() {
  std::string why;
  auto boot = open_boot(&why);
  if (!boot) return why;
  const BootInfo& me = boot->info();
  for (uint32_t again = 0; again < 3; ++again) {
    const size_t bytes = 100 - 40 * again;
    if (boot->publish(some_bytes(bytes + me.rank, me.rank), &why) != Status::ok) return why;
    for (uint32_t r = 0; r < me.size; ++r) {
      std::vector<std::byte> got;
      if (boot->lookup(r, &got, &why) != Status::ok) return why;
      if (got != some_bytes(bytes + r, r)) return "wrong address of " + std::to_string(r);
    }
  }
  const ProcessMap* map = nullptr;
  if (boot->process_map(&map, &why) != Status::ok) return why;
  for (int i = 0; i < 3; ++i) {
    if (boot->barrier(&why) != Status::ok) return why;
  }
  return format_text("ok %s node %u local %u/%u", me.launcher, map->node(me.rank),
                     map->local_rank(me.rank), map->local_size(map->node(me.rank)));
}

// The same, for starts that wait in vain.
std::string hasty_start_up() {
  set_deadline("1000");
  return start_up();
}

TEST(ByHand, FourProcesses) {
  Children children;
  std::string job = fresh_job();
  for (int r : {2, 0, 3, 1}) children.start(by_hand(job, r, 4), start_up);
  EXPECT_EQ(children.join(),
            (std::vector<std::string>{
                "ok environment node 0 local 2/4", "ok environment node 0 local 0/4",
                "ok environment node 0 local 3/4", "ok environment node 0 local 1/4"}));
}

std::vector<std::string> on_two_nodes(const char* local_size_of_rank_3) {
  Children children;
  std::string job = fresh_job();
  for (int r = 0; r < 4; ++r) {
    Environment e = by_hand(job, r, 4);
    e["TORII_NODE"] = std::to_string(10 + r % 2);
    e["TORII_LOCAL_RANK"] = std::to_string(r / 2);
    e["TORII_LOCAL_SIZE"] = r == 3 ? local_size_of_rank_3 : "2";
    children.start(e, hasty_start_up);
  }
  return children.join();
}

TEST(ByHand, ClaimedNodesAreVerified) {
  auto texts = on_two_nodes("2");
  EXPECT_EQ(texts[2], "ok environment node 10 local 1/2");
  EXPECT_EQ(texts[3], "ok environment node 11 local 1/2");
  texts = on_two_nodes("3");
  EXPECT_NE(texts[3].find("contradicts itself: rank 3 is process 1 of 3 on node 11"),
            std::string::npos)
      << texts[3];
}

TEST(ByHand, AMissingRankIsNamed) {
  Children children;
  std::string job = fresh_job();
  children.start(by_hand(job, 2, 4), start_up);  // waits until rank 0 says it
  children.start(by_hand(job, 0, 4), hasty_start_up);
  for (const std::string& text : children.join()) {
    EXPECT_EQ(text.find("ranks 1, 3 of 4 did not come within 1000 ms; start each as the same user"),
              0u)
        << text;
  }
  children.start(by_hand(job, 1, 2), hasty_start_up);
  EXPECT_EQ(children.join()[0].find("no process with TORII_RANK=0 of the job TORII_JOB=" + job),
            0u);
}

TEST(ByHand, TwoOfOneRank) {
  Children children;
  std::string job = fresh_job();
  for (int r : {0, 1, 1}) children.start(by_hand(job, r, 3), start_up);
  for (const std::string& text : children.join()) {
    EXPECT_EQ(text,
              "two processes of the job TORII_JOB=" + job + " were started with TORII_RANK=1");
  }
}

TEST(ByHand, TwoOfRankZero) {
  Children children;
  std::string job = fresh_job();
  for (int r : {0, 0}) children.start(by_hand(job, r, 2), hasty_start_up);
  auto texts = children.join();
  std::string both = texts[0] + texts[1];
  EXPECT_NE(both.find("another process with TORII_RANK=0 is starting"), std::string::npos) << both;
  EXPECT_NE(both.find("rank 1 of 2 did not come"), std::string::npos) << both;
}

TEST(ByHand, DifferentSizes) {
  Children children;
  std::string job = fresh_job();
  children.start(by_hand(job, 0, 3), start_up);
  children.start(by_hand(job, 1, 2), start_up);
  for (const std::string& text : children.join()) {
    EXPECT_EQ(text, "rank 1 was started with TORII_SIZE=2, rank 0 with TORII_SIZE=3");
  }
}

TEST(ByHand, BadVariables) {
  const std::pair<Environment, const char*> cases[] = {
      {{{"TORII_RANK", "0"}}, "TORII_SIZE is not set; expected an integer from 1 to 512"},
      {{{"TORII_SIZE", "2"}}, "TORII_RANK is not set; expected an integer from 0 to 1"},
      {{{"TORII_SIZE", "0"}}, "TORII_SIZE=0: expected an integer from 1 to 512"},
      {{{"TORII_SIZE", "2"}, {"TORII_RANK", "2"}}, "TORII_RANK=2: expected an integer from 0 to 1"},
      {{{"TORII_SIZE", "1"}, {"TORII_RANK", "0"}, {"TORII_JOB", "a b"}},
       "TORII_JOB=a b: expected 1 to 64 printable characters"},
      {{{"TORII_SIZE", "1"}, {"TORII_RANK", "0"}, {"TORII_NODE", "0"}},
       "TORII_LOCAL_SIZE is not set; expected an integer from 1 to 1"},
      {{{"PMIX_NAMESPACE", "x"}, {"PMIX_RANK", "0"}}, "PMIx"}};
  for (auto& [environment, sentence] : cases) {
    Children children;
    children.start(environment, start_up);
    std::string text = children.join()[0];
    EXPECT_NE(text.find(sentence), std::string::npos) << text;
  }
}

TEST(ByHand, AlonePublishesToItself) {
  Children children;
  children.start({}, start_up);
  EXPECT_EQ(children.join()[0], "ok singleton node 0 local 0/1");
}

// Tasks of a Slurm step without a PMI, and processes that lost a part of what their launcher said.
// A program of a batch script is the one task of its step.
TEST(ByHand, ProcessesOfALauncherWithoutPmiAreNoJobsOfOne) {
  const std::pair<const char*, const char*> cases[] = {{"SLURM_STEP_NUM_TASKS", "srun --mpi=pmix"},
                                                       {"PMI_SIZE", "Open MPI's mpirun"},
                                                       {"OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"}};
  for (const auto& [variable, remedy] : cases) {
    Children children;
    children.start({{variable, "4"}}, start_up);
    children.start({{variable, "1"}}, start_up);
    children.start({{variable, "4"}, {"TORII_SIZE", "1"}, {"TORII_RANK", "0"}}, start_up);
    children.start({{variable, "4"}, {"SLURM_PTY_PORT", "4321"}}, start_up);
    const auto texts = children.join();
    EXPECT_EQ(texts[0].find(std::string(variable) + "=4: this process is one of 4, but"), 0u)
        << texts[0];
    EXPECT_NE(texts[0].find(remedy), std::string::npos) << texts[0];
    EXPECT_EQ(texts[1], "ok singleton node 0 local 0/1") << variable;
    EXPECT_EQ(texts[2], "ok environment node 0 local 0/1") << variable;
    EXPECT_EQ(texts[3], "ok singleton node 0 local 0/1") << variable;
  }
}

TEST(Boot, CallsWithoutADeadlineGetOne) {
  auto number = std::make_shared<int>(0);
  EXPECT_EQ(run_with_deadline([number] { *number = 7; }), Status::ok);
  EXPECT_EQ(*number, 7);
  set_deadline("100");
  struct Pipe {
    Pipe() {
      if (pipe(ends)) abort();
    }
    ~Pipe() { close(ends[0]); }
    int ends[2];
  };
  auto silent = std::make_shared<Pipe>();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run_with_deadline([silent] {
              char byte;
              EXPECT_EQ(read(silent->ends[0], &byte, 1), 0);
            }),
            Status::timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  set_deadline("30000");
  close(silent->ends[1]);
  while (silent.use_count() > 1) std::this_thread::yield();  // what it uses lives until its end
}

TEST(ByHand, AnAddressTooLongIsRefused) {
  std::string why;
  auto boot = open_boot(&why);
  ASSERT_TRUE(boot);
  EXPECT_EQ(boot->publish(some_bytes(kBootAddressMax + 1, 0), &why), Status::invalid);
  EXPECT_EQ(why, "an address of 4097 bytes cannot be published; 4096 is the most");
  EXPECT_EQ(boot->publish(some_bytes(kBootAddressMax, 0), &why), Status::ok);
}

// A raw connection to rank 0 of a job, tried until it stands.
int raw_client(const std::string& job, uid_t uid) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::string name = format_text("torii-boot-%u-%016llx-0", uid,
                                 static_cast<unsigned long long>(job_number(
                                     format_text("environment:%u:%s", uid, job.c_str()))));
  memcpy(address.sun_path + 1, name.data(), name.size());
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  for (int i = 0; i < 1000; ++i) {
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), length) == 0) return fd;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return -1;
}

// Says hello to rank 0 as rank 1 of 2 with an address of `bytes` bytes, and leaves at once.
std::string hello_and_leave(const std::string& job, uid_t uid, uint32_t magic, uint32_t bytes) {
  int fd = raw_client(job, uid);
  if (fd < 0) return "no connection";
  std::vector<uint32_t> message = {magic, 3, 1, 0, bytes};
  message.resize(5 + 1, 0);
  return write(fd, message.data(), 20 + std::min(bytes, 4u)) > 0 ? "sent" : "not sent";
}

TEST(ByHand, RankZeroSurvivesBadCompany) {
  const uint32_t magic = 0x4f424f54;
  const struct {
    uint32_t magic, bytes;
    const char* reason;
  } cases[] = {{magic, 4, "rank 1 ended while the job was starting"},
               {magic, 8, "ranks 1, 2 of 3 did not come"},
               {magic, 5000, "does not speak this version"},
               {1, 4, "does not speak this version"}};
  for (auto& c : cases) {
    Children children;
    std::string job = fresh_job();
    children.start(by_hand(job, 0, 3), hasty_start_up);
    children.start({}, [&] { return hello_and_leave(job, geteuid(), c.magic, c.bytes); });
    auto texts = children.join();
    EXPECT_EQ(texts[1], "sent");
    EXPECT_NE(texts[0].find(c.reason), std::string::npos) << texts[0];
  }
}

TEST(ByHand, OtherUsersAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  Children children;
  std::string job = fresh_job();
  children.start(by_hand(job, 0, 3), hasty_start_up);
  children.start({}, [&] {
    return setuid(65534) ? std::string("setuid") : hello_and_leave(job, 0, 0x4f424f54, 4);
  });
  auto texts = children.join();
  EXPECT_EQ(texts[0].find("ranks 1, 2 of 3 did not come"), 0u) << texts[0];
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (const char* name : {"PMIX_NAMESPACE", "PMI_FD", "PMI_PORT", "PMI_SIZE", "TORII_RANK",
                           "TORII_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"}) {
    unsetenv(name);
  }
  std::string why;
  if (param_set("boot_deadline_ms", "30000", "test", &why) != Status::ok) return 1;
  return RUN_ALL_TESTS();
}
