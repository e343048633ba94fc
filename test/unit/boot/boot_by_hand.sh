#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Processes started by hand with TORII_RANK and TORII_SIZE, and one started with nothing.
. "${srcdir:-.}/test/unit/boot/boot_launchers.sh"
export TORII_JOB=by-hand-$$

# by_hand SIZE RANKS OPTIONS...
by_hand() {
  size=$1 ranks=$2
  shift 2
  pids=
  for r in $ranks; do
    TORII_RANK=$r TORII_SIZE=$size timeout -k 5 60 $probe "$@" >"$work/$r" 2>&1 &
    pids="$pids $!"
  done
  status=0
  for pid in $pids; do wait "$pid" || status=$?; done
  for r in $ranks; do cat "$work/$r"; done >"$work/out"
}

by_hand 4 "3 1 0 2" --bytes 4000
expect_ok environment 4
by_hand 1 0
expect_ok environment 1
run $probe
expect_ok singleton 1
export TORII_BOOT_DEADLINE_MS=1000
by_hand 3 "0 1 2" --absent 1
expect_error environment 'rank 1 of 3 did not come within 1000 ms'
by_hand 3 "0 1 2" --absent 0
expect_error environment 'no process with TORII_RANK=0'
