#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Start-up by MPICH's mpiexec (PMI-1), over an inherited socket and over a port.
. "${srcdir:-.}/test/unit/boot/boot_launchers.sh"
mpiexec=$(command -v mpiexec.hydra) || skip "no mpiexec.hydra; Debian: mpich"

for n in 1 2 4; do
  run $mpiexec -n $n $probe --bytes 4000
  expect_ok PMI-1 $n
done
run $mpiexec -pmi-port -n 2 $probe
expect_ok PMI-1 2
run $mpiexec -n 3 $probe --absent 1
expect_end PMI-1
run env TORII_BOOT_DEADLINE_MS=1000 $mpiexec -n 3 $probe --stuck 1
expect_error PMI-1 'not all 3 processes of the job came within 1000 ms'
