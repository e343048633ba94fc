// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/hardware.h"

#include <glob.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <string_view>

#include "core/base/small_file.h"

namespace torii {
namespace {

constexpr size_t kCpuinfoBytes = 4096;  // the first processor is enough, and the file is slow
constexpr unsigned kCacheFolders = 16;
constexpr unsigned kAttachCalls = 8;

// The value of the first line "KEY : VALUE"; empty if there is none.
std::string_view field(std::string_view text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view name = line.substr(0, colon);
    name = name.substr(0, name.find_last_not_of(" \t") + 1);
    if (name != key) continue;
    const std::string_view value = line.substr(colon + 1);
    return value.substr(std::min(value.find_first_not_of(" \t"), value.size()));
  }
  return {};
}

// Names of processors come with blanks in the middle and at the end.
void append_words(std::string_view text, std::string* out) {
  bool blank = !out->empty();
  for (char c : text) {
    if (c == ' ' || c == '\t') {
      blank = !out->empty();
      continue;
    }
    if (blank) *out += ' ';
    blank = false;
    *out += c == '[' ? '(' : c == ']' ? ')' : c < ' ' || c > '~' ? '?' : c;
  }
}

// The text that tells designs of processors apart, on the architectures that Linux describes.
std::string processor_model(std::string_view cpuinfo) {
  std::string model;
  for (const char* key : {"model name", "cpu model", "cpu"}) {
    if (!model.empty()) break;
    append_words(field(cpuinfo, key), &model);
  }
  constexpr const char* kDetails[][2] = {{"cpu family", "family"},
                                         {"model", "model"},
                                         {"CPU implementer", "implementer"},
                                         {"CPU part", "part"},
                                         {"CPU variant", "variant"}};
  for (const auto& [key, word] : kDetails) {
    const std::string_view value = field(cpuinfo, key);
    if (value.empty()) continue;
    append_words(word, &model);
    append_words(value, &model);
  }
  return model;
}

std::string line_of(const std::string& path) {
  std::string text;
  if (!read_beginning(path, 64, &text)) return {};
  return text.substr(0, text.find('\n'));
}

uint64_t parse_kilobytes(const std::string& text) {
  uint64_t value = 0;
  size_t at = 0;
  for (; at < text.size() && at < 9 && text[at] >= '0' && text[at] <= '9'; ++at)
    value = value * 10 + static_cast<uint64_t>(text[at] - '0');
  if (text.substr(at) == "K") return value << 10;
  return text.substr(at) == "M" ? value << 20 : 0;
}

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

// Time of the quickest of a few calls of cross-memory attach on this process itself; 0: refused.
uint64_t measure_attach() {
  uint64_t here = 1, there = 2, best = ~uint64_t{0};
  const iovec local{&here, sizeof(here)}, remote{&there, sizeof(there)};
  for (unsigned i = 0; i < kAttachCalls; ++i) {
    const uint64_t start = now_ns();
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != sizeof(here)) return 0;
    best = std::min(best, now_ns() - start);
  }
  return std::max<uint64_t>(best, 1);
}

// As the processor describes its cache of the highest level. Processors without leaf 4 answer 0.
bool read_hashed_cache() {
  bool hashed = false;
#if defined(__x86_64__)
  constexpr unsigned kLeaf = 4, kCachesMax = 16, kTypeMask = 31, kComplexIndexing = 1 << 2;
  unsigned a, b, c, d, highest = 0;
  for (unsigned cache = 0; cache < kCachesMax; ++cache) {
    if (!__get_cpuid_count(kLeaf, cache, &a, &b, &c, &d) || !(a & kTypeMask)) break;
    const unsigned level = a >> 5 & 7;
    if (level < highest) continue;
    highest = level;
    hashed = d & kComplexIndexing;
  }
#endif
  return hashed;
}

}  // namespace

Hardware read_hardware(const std::string& root, unsigned processors, bool attach,
                       uint64_t attach_ns) {
  Hardware machine;
  machine.processors = processors;
  machine.attach = attach;
  machine.attach_ns = attach_ns;
  std::string cpuinfo;
  read_beginning(root + "/proc/cpuinfo", kCpuinfoBytes, &cpuinfo);
  if (std::string model = processor_model(cpuinfo); !model.empty()) machine.model = model;
  for (unsigned i = 0; i < kCacheFolders; ++i) {
    const std::string folder =
        root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i);
    const std::string level = line_of(folder + "/level");
    if (level.empty()) break;
    if (level.size() != 1 || level[0] < '1' || level[0] > '3') continue;
    if (line_of(folder + "/type") == "Instruction") continue;
    machine.caches[level[0] - '1'] = parse_kilobytes(line_of(folder + "/size"));
  }
  return machine;
}

const Hardware& hardware() {
  static const Hardware machine = [] {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const uint64_t attach_ns = measure_attach();
    Hardware here =
        read_hardware("", online > 0 ? static_cast<unsigned>(online) : 1, attach_ns > 0, attach_ns);
    here.hashed_cache = read_hashed_cache();
    return here;
  }();
  return machine;
}

std::string signature_of(const Hardware& machine) {
  std::string text = machine.model + ", " + std::to_string(machine.processors) + " processor" +
                     (machine.processors == 1 ? "" : "s") + ", caches";
  for (const uint64_t bytes : machine.caches) text += " " + size_text(bytes);
  return text + (machine.attach ? ", attach" : ", no attach");
}

std::vector<std::string> rdma_devices() {
  constexpr char kFolder[] = "/sys/class/infiniband/";
  std::vector<std::string> names;
  glob_t found{};
  if (glob((std::string(kFolder) + "*").c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; i++)
      names.push_back(found.gl_pathv[i] + sizeof(kFolder) - 1);
  globfree(&found);
  return names;
}

std::string size_text(uint64_t bytes) {
  const char* suffix = "";
  for (const char* next : {"k", "m", "g"}) {
    if (bytes == 0 || bytes % 1024) break;
    bytes /= 1024;
    suffix = next;
  }
  return std::to_string(bytes) + suffix;
}

}  // namespace torii
