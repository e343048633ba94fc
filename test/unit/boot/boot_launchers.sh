# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the boot_*.sh tests, which start test/unit/boot_probe for real.
probe=test/unit/boot_probe
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
unset PMIX_NAMESPACE PMI_FD PMI_PORT PMI_SIZE TORII_RANK TORII_SIZE TORII_JOB
unset SLURM_STEP_NUM_TASKS OMPI_COMM_WORLD_SIZE
# For builds with a leak checker: what the launchers' own libraries leave behind is not ours.
printf 'leak:libpmix\nleak:libmpi\nleak:libopen-\nleak:libevent\n' >"$work/foreign"
export LSAN_OPTIONS="suppressions=$work/foreign:print_suppressions=0"
# These let mpirun run in a build container; elsewhere they change nothing.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "failed: $*"; cat "$work/out"; exit 1; }

# Runs a command bounded in time; its output goes to $work/out, its exit status to $status.
run() {
  timeout -k 5 60 "$@" >"$work/out" 2>&1
  status=$?
}

# All ranks of a job of $2, started as $1, must have said that all is well.
expect_ok() {
  [ "$status" = 0 ] || fail "$1: exit status $status"
  r=0
  while [ "$r" -lt "$2" ]; do
    [ "$(grep -c "^ok: rank $r of $2, node 0, local $r of $2, $1, job" "$work/out")" = "${3:-1}" ] ||
      fail "$1: rank $r of $2 is not well"
    r=$((r + 1))
  done
  [ "$(sed -n 's/^ok: .* job //p' "$work/out" | sort -u | wc -l)" = 1 ] || fail "$1: more than one job"
  echo "ok: $1, $2 processes"
}

# The job must have ended by itself. The launcher may have killed all ranks before they could say
# anything (and hydra's exit status is then sometimes 0), but none may claim success.
expect_end() {
  [ "$status" -ne 124 ] && [ "$status" -ne 137 ] || fail "$1: hangs"
  ! grep -q '^ok:' "$work/out" || fail "$1: a rank claims success"
  echo "ok: $1, a rank that leaves early ends the job"
}

# The job must have ended by itself with an error of Torii's that contains $2.
expect_error() {
  [ "$status" -ne 0 ] || fail "$1: no error where one was due"
  [ "$status" -ne 124 ] && [ "$status" -ne 137 ] || fail "$1: hangs"
  grep -q "^error: .*$2" "$work/out" || fail "$1: no message with \"$2\""
  echo "ok: $1, error \"$2\""
}
