// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/tune/tune_output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/hardware.h"
#include "core/base/log.h"

namespace torii::tune {

using perf::Test;

namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool make_folders(const std::string& folder) {
  for (size_t at = 1; at != std::string::npos;) {
    at = folder.find('/', at);
    const std::string part = folder.substr(0, at);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) return false;
    if (at != std::string::npos) ++at;
  }
  return true;
}

std::string cannot_write(const std::string& path) {
  return format_text("%s cannot be written: %s; --output names another file", path.c_str(),
                     strerror(errno));
}

bool write_all(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += size_t(n);
  }
  return fsync(fd) == 0;
}

bool replace_file(const std::string& path, const std::string& text) {
  const std::string draft = path + "." + std::to_string(getpid());
  const int fd = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return false;
  bool good = write_all(fd, text);
  good = close(fd) == 0 && good;
  good = good && rename(draft.c_str(), path.c_str()) == 0;
  const int error = errno;
  if (!good) unlink(draft.c_str());
  errno = error;
  return good;
}

// The gain of the second of two times, as people say it.
std::string gain_text(double log_ratio) {
  const double percent = 100 * std::expm1(-log_ratio);
  return std::abs(percent) < 0.5 ? "0 %" : format_text("%+.0f %%", percent);
}

// Microseconds of a latency, 10^6 bytes per second of a stream.
std::string value_text(const Cell& cell, double ns) {
  const double directions = cell.test == Test::bidirectional ? 2 : 1;
  const bool rate = cell.test == Test::bandwidth || cell.test == Test::bidirectional;
  return rate ? format_text("%.0f", directions * double(cell.bytes) * 1e3 / ns)
              : format_text(ns < 9995 ? "%.2f" : "%.1f", ns / 1e3);
}

}  // namespace

bool prepare_output(const std::string& path, std::string* why) {
  const std::string folder = folder_of(path);
  struct stat facts;
  if (make_folders(folder) && access(folder.c_str(), W_OK) == 0) {
    const bool exists = stat(path.c_str(), &facts) == 0;
    if (exists ? S_ISREG(facts.st_mode) : errno == ENOENT) return true;
    if (exists) errno = S_ISDIR(facts.st_mode) ? EISDIR : EINVAL;
  }
  *why = cannot_write(path);
  return false;
}

bool write_machine(const std::string& path, const TunedMachine& machine, std::string* note,
                   std::string* why) {
  std::vector<TunedMachine> machines;
  TuneFault fault;
  bool exists = false;
  note->clear();
  if (!read_tune_file(path, &machines, &exists, &fault)) {
    if (fault.newer) {
      *why = path + " was written by a later version of torii-tune; --output names another file";
      return false;
    }
    const std::string old = path + ".old";
    if (rename(path.c_str(), old.c_str()) != 0) {
      *why = cannot_write(old);
      return false;
    }
    const std::string where = fault.line ? "line " + std::to_string(fault.line) + ": " : "";
    *note = path + " was replaced, and kept as " + old + ": " + where + fault.text;
  }
  const auto same = std::find_if(machines.begin(), machines.end(), [&](const TunedMachine& other) {
    return other.signature == machine.signature;
  });
  if (same == machines.end()) {
    machines.push_back(machine);
  } else {
    *same = machine;
  }
  const std::string text = tune_file_text(machines);
  if (text.size() > kTuneFileMax) {
    *why = path + ": there is no room for another machine; remove those that are gone";
    return false;
  }
  if (replace_file(path, text)) return true;
  *why = cannot_write(path);
  return false;
}

Table gain_table(const Measured& measured) {
  constexpr struct {
    Test test;
    const char* name;
  } kFigures[] = {{Test::latency, "latency us"},
                  {Test::bandwidth, "one way MB/s"},
                  {Test::bidirectional, "both ways MB/s"},
                  {Test::late, "late us"}};
  Table table;
  table.name = "before, after, gain";
  table.columns = {"bytes"};
  for (const auto& figure : kFigures) {
    table.columns.push_back(figure.name);
    table.columns.insert(table.columns.end(), {"", ""});
  }
  for (size_t k = 0; k < measured.cells.size(); ++k) {
    const Cell& cell = measured.cells[k];
    const std::string bytes = size_text(cell.bytes);
    if (table.rows.empty() || table.rows.back()[0] != bytes) {
      table.rows.push_back({bytes});
      table.rows.back().resize(table.columns.size());
    }
    for (size_t f = 0; f < std::size(kFigures); ++f) {
      if (kFigures[f].test != cell.test) continue;
      std::string* at = &table.rows.back()[1 + 3 * f];
      at[0] = value_text(cell, measured.typical_ns(0, k));
      at[1] = value_text(cell, measured.typical_ns(1, k));
      at[2] = gain_text(measured.log_ratio(1, 0, k));
    }
  }
  return table;
}

double mean_gain(const Measured& measured) {
  double sum = 0;
  for (size_t k = 0; k < measured.cells.size(); ++k) sum += measured.bounded_log_ratio(1, 0, k);
  return sum / double(measured.cells.size());
}

}  // namespace torii::tune
