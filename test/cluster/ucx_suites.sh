# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: the tests of MPI, LAMMPS and HPCC, and MPICH's programs under Open MPI, on four
# nodes with the driver ucx over UCX's tcp. Minutes each: with TORII_TEST_LONG, or by name.

# long_case NAME: is it to be run, and can it be?
long_case() {
  [ $list = yes ] || [ -n "${TORII_TEST_LONG:-}" ] || [[ $wanted == *" $1 "* ]] || return 1
  chosen "$1" || return 1
  ldconfig -p | grep -q 'libucp\.so\.0' || { report SKIP "$1" "UCX is missing (Debian: libucx0)"; return 1; }
  torii_ready "$1"
}

# nested CASE COMMAND...: a runner of its own is one case, which passes with its last line
nested() {
  local case=$1 status
  shift
  "$@" >"$work/nested" 2>&1 </dev/null
  status=$?
  if [ $status -eq 77 ]; then
    report SKIP "$case" "$(tail -n 1 "$work/nested")"
  elif [ $status -ne 0 ]; then
    report FAIL "$case" "exit status $status: $({ grep '^FAIL' "$work/nested"; tail -n 1 "$work/nested"; } | head -n 20)"
  else
    report PASS "$case" "$(grep -v '^PASS' "$work/nested" | paste -s -d ';')"
  fi
}

# Cases of test/mpi/run that do not depend on one node. All four ranks are on nodes of their own; eight, for
# collectives, are two on each.
mpi_cases="selected pingpong order probe truncation datatypes persistent modes not-direct requests communicators
  queues threads-2 waiting intercommunicators connect-accept collectives-off
  conjugate-gradient one-sided fork thread-order large kill-survivors collective-kill btl-pingpong btl-modes
  btl-requests btl-collectives btl-datatypes btl-windows-allocate btl-windows-malloc btl-windows-dynamic
  btl-beside-mtl-malloc btl-kill-windows"
mpi_cases_8="pingpong requests collectives collective-kinds collective-dups"

# mpi_case RANKS CASE: test/mpi/run judges it; and its report shows paths by ucx
mpi_case() {
  local option="--map-by node --host n1:4,n2:4,n3:4,n4:4 -x TORII_REPORT=1 -x TORII_DRIVERS=self,shm,ucx"
  rm -f "$work/mpi/output"
  nested "torii-ucx-mpi: $2, $1 ranks" cluster run "$mpi/run" --components "$components" --work "$work/mpi" \
    --np "$1" --option "$option -x TORII_UCX_TLS=tcp" "$2"
  grep -aqE "${by_ucx}tcp/eth0\\)" "$work/mpi/output" ||
    report FAIL "torii-ucx-mpi: $2, $1 ranks" "no path by ucx in $(head -n 5 "$work/mpi/output")"
}

mpi_over_ucx() {
  long_case torii-ucx-mpi || return 0
  local case
  mkdir -p "$work/mpi"
  cluster up 4 --share "$work" --share "$components"
  for case in $mpi_cases; do mpi_case 4 "$case"; done
  for case in $mpi_cases_8; do mpi_case 8 "$case"; done
  cluster down
}

programs_over_ucx() {
  long_case torii-ucx-programs || return 0
  local program
  for program in lammps-melt hpcc; do
    nested "torii-ucx-programs: $program" "$mpi/programs" --components "$components" --nodes 4 --ucx tcp $program
  done
}

# Programs of the folder rma that take seconds. Those with large accumulates and flush_local take minutes over
# Open MPI's own tcp, too.
rma_programs="winname transpose1 accfence2 fetchandadd compare_and_swap put_bottom rget_unlock
  get_accumulate_double_derived strided_putget_indexed manyrma3 large_small_acc pscw_ordering mutex_bench
  acc_pairtype get_struct"

suite_over_ucx() {
  long_case torii-ucx-suite || return 0
  local suite=("$mpi/pt2pt-suite" --components "$components" --nodes 4 --ucx tcp ${suite_cache:+--cache "$suite_cache"})
  nested "torii-ucx-suite: pt2pt" "${suite[@]}"
  nested "torii-ucx-suite: rma" "${suite[@]}" --folder rma $rma_programs
  nested "torii-ucx-suite: rma over btl" "${suite[@]}" --folder rma --over btl $rma_programs
}
