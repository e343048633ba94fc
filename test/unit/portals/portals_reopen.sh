#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The Portals interface opened several times in each process of a job, under every launcher.
. "${srcdir:-.}/test/unit/boot/boot_launchers.sh"
probe=test/unit/portals_reopen

# Every rank of a job of $2, started as $1, must have said that all is well.
expect_all() {
  [ "$status" = 0 ] || fail "$1: exit status $status"
  [ "$(grep -c "^ok: rank [0-9]* of $2, 4 openings" "$work/out")" = "$2" ] || fail "$1: a rank is missing"
  echo "ok: $1, $2 processes"
}

# A job of 3 by hand, with these arguments.
by_hand() {
  pids=
  for r in 0 1 2; do
    TORII_JOB=reopen-$$ TORII_SIZE=3 TORII_RANK=$r timeout -k 5 60 $probe "$@" >"$work/$r" 2>&1 &
    pids="$pids $!"
  done
  status=0
  for pid in $pids; do wait "$pid" || status=$?; done
  cat "$work/0" "$work/1" "$work/2" >"$work/out"
}

for after in nifini fini; do
  run $probe 4 $after
  expect_all "alone, $after" 1
  by_hand 4 $after
  expect_all "by hand, $after" 3
done

mpirun=$(command -v mpirun.openmpi || command -v mpirun)
if [ -n "$mpirun" ] && $mpirun --version 2>&1 | grep -q 'Open MPI\|OpenRTE\|PRRTE'; then
  run $mpirun --oversubscribe -np 3 $probe
  grep -q 'built without PMIx' "$work/out" || expect_all PMIx 3
else
  echo "no mpirun of Open MPI; Debian: openmpi-bin"
fi
if mpiexec=$(command -v mpiexec.hydra); then
  run $mpiexec -n 3 $probe
  expect_all PMI-1 3
  run $mpiexec -n 2 $probe 2 fini
  grep -q "PtlFini has ended this process's part in the job, call it once" "$work/out" ||
    fail "PMI-1: nothing tells why PtlNIInit fails after PtlFini"
else
  echo "no mpiexec.hydra; Debian: mpich"
fi
