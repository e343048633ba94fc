// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

namespace torii {

// Did the launcher of this process's job start it from outside of its PID namespace? Then others of
// the job may be in containers of their own. True if this process and all ancestors that the
// namespace shows were started with the launcher's variables, which the launcher itself has not.
// False as well where there is no launcher, or /proc does not tell. Reads some files of /proc; not
// for hot paths.
bool launcher_is_outside();

}  // namespace torii
