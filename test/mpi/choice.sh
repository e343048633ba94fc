# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by test/mpi/run: Open MPI chooses by itself, with Torii's components in its path.

# It takes Torii, unless TORII_ENABLE=no says that it is not there.
switched_off() {
  local named=("${transport_options[@]}")
  chosen switched-off || return 0
  if ! build pingpong; then report FAIL switched-off "pingpong.c does not compile"; return; fi
  mapfile -t transport_options < <(with_components)
  judge chosen-by-itself 2 60 -x TORII_REPORT=1 -- "$work/pingpong"
  grep -q '^torii report: rank 0 -> rank 1 ' "$work/output" ||
    report FAIL chosen-by-itself "no report of a path"
  judge switched-off 2 60 -x TORII_REPORT=1 -x TORII_ENABLE=no -- "$work/pingpong"
  ! grep -qi torii "$work/output" || report FAIL switched-off "Torii is used: $(grep -im1 torii "$work/output")"
  transport_options=("${named[@]}")
}
