#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Start-up by Open MPI's mpirun (PMIx), alone and inside an MPI program; peers that never come.
. "${srcdir:-.}/test/unit/boot/boot_launchers.sh"
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || skip "no mpirun; Debian: openmpi-bin"
$mpirun --version 2>&1 | grep -q 'Open MPI\|OpenRTE\|PRRTE' || skip "$mpirun is not Open MPI's"
run $mpirun --oversubscribe -np 1 $probe
grep -q 'built without PMIx' "$work/out" && skip "this Torii was built without PMIx"

for n in 1 2 4; do
  run $mpirun --oversubscribe -np $n $probe --bytes 4000
  expect_ok PMIx $n
done
library=$(ldd "$(command -v ompi_info)" 2>/dev/null | sed -n 's/.*=> \(.*libmpi\.so[^ ]*\).*/\1/p')
if [ -n "$library" ]; then
  # Twice in each process, between MPI_Init and MPI_Finalize. The MPI leaves memory behind.
  run env ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" $mpirun --oversubscribe -np 3 $probe --in-mpi "$library"
  expect_ok PMIx 3 2
fi
run $mpirun --oversubscribe -np 3 $probe --absent 1
expect_end PMIx
run env TORII_BOOT_DEADLINE_MS=5000 $mpirun --oversubscribe -np 3 $probe --stuck 1
expect_error PMIx 'not all 3 processes of the job came within 5000 ms'
# A launcher that is stopped: no wait of start-up is longer than the deadline.
cat >"$work/stopped" <<'END'
kill -STOP $PPID
"$1" >"$2" 2>&1
kill -KILL $PPID
END
run sh -c '"$@"; exit 3' sh env TORII_BOOT_DEADLINE_MS=1000 TMPDIR="$work" \
  $mpirun --oversubscribe -np 1 sh "$work/stopped" $probe "$work/said"
cat "$work/said" >>"$work/out"
expect_error PMIx 'does not answer: nothing came within 1000 ms'
