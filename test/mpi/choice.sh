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

# The launcher says that processors are shared (mpi_yield_when_idle): waits yield, unless TORII_WAIT
# says otherwise.
told_to_yield() {
  local yields='report: rank 0 counters:.* yields=[1-9]'
  chosen told-to-yield || return 0
  if ! build pingpong; then report FAIL told-to-yield "pingpong.c does not compile"; return; fi
  judge told-to-yield 2 60 --mca mpi_yield_when_idle 1 -x TORII_REPORT=1 -- "$work/pingpong"
  grep -q "$yields" "$work/output" || report FAIL told-to-yield "the report shows no yields"
  judge told-to-spin 2 60 --mca mpi_yield_when_idle 1 -x TORII_REPORT=1 -x TORII_WAIT=spin -- "$work/pingpong"
  ! grep -q "$yields" "$work/output" || report FAIL told-to-spin "it yields"
}

choices() {
  switched_off
  told_to_yield
}
