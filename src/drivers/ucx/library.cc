// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/ucx/library.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "core/base/log.h"

namespace torii::ucx {
namespace {

constexpr char kLibraryFile[] = "libucp.so.0";  // of all versions 1.x

// A variable of the environment for as long as this lives, unless the user has set it.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(getenv(name) ? nullptr : name) {
    if (name_) setenv(name_, value, 0);
  }
  ~Setting() {
    if (name_) unsetenv(name_);
  }
  Setting(const Setting&) = delete;

 private:
  const char* const name_;
};

template <typename Function>
bool find_function(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

bool load(Library* out) {
  const Setting events("UCX_MEM_EVENTS", "n"), errors("UCX_HANDLE_ERRORS", "none");
  // What fails Torii says itself.
  const Setting log("UCX_LOG_LEVEL", log_level() >= LogLevel::info ? "warn" : "fatal");
  void* const library = dlopen(kLibraryFile, RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
#define TORII_UCX_FUNCTION(name) find_function(library, "ucp_" #name, &out->name)&&
  return TORII_UCX_FUNCTIONS(TORII_UCX_FUNCTION)
      find_function(library, "ucs_status_string", &out->status_string);
#undef TORII_UCX_FUNCTION
}

}  // namespace

const Library* open_library(std::string* why) {
  static Library library;
  static const bool loaded = load(&library);
  if (loaded) return &library;
  *why = format_text(
      "ucx: %s with the functions of UCX 1.13 or newer cannot be opened; install it (Debian: "
      "libucx0)",
      kLibraryFile);
  return nullptr;
}

}  // namespace torii::ucx
