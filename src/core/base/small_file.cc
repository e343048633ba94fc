// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace torii {

bool read_beginning(const std::string& path, size_t most, std::string* out) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  struct stat facts;
  int error = fstat(fd, &facts) ? errno : S_ISREG(facts.st_mode) ? 0 : EINVAL;
  char buffer[2048];
  while (error == 0 && most > 0) {
    const ssize_t n = read(fd, buffer, std::min(most, sizeof(buffer)));
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      error = errno;
      break;
    }
    out->append(buffer, static_cast<size_t>(n));
    most -= static_cast<size_t>(n);
  }
  close(fd);
  errno = error;
  return error == 0;
}

}  // namespace torii
