#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# torii-perf: every test at every level on this machine, the three forms of output, and the exact
# texts for wrong options.
set -u
for v in $(env | sed -n "s/^\(TORII_[A-Z_]*\)=.*/\1/p") PMIX_NAMESPACE PMI_FD PMI_PORT PMI_SIZE OMPI_COMM_WORLD_SIZE SLURM_STEP_NUM_TASKS; do unset "$v"; done
perf=${1:-./torii-perf}
failed=0
fail() {
  echo "FAIL: $*"
  failed=1
}
quick="--iterations 3 --repetitions 2 --max 64k --depth 100 --window 8"

out=$(timeout 120 $perf --fork 2 --level all $quick --csv 2>&1) || fail "--csv: $out"
for row in tagged,latency,,0,65536 tagged,bandwidth,,0,1 tagged,bidirectional,,0,4096 \
  tagged,rate,,0,0 tagged,late,,0,65536 tagged,posted,exact,100 tagged,unexpected,any-tag,100 \
  portals,late,,0,8 portals,latency,,0,0 \
  portals,posted,any-source,10 portals,unexpected,exact,100 portals,get-latency,,0,65536 \
  portals,get-bandwidth,,0,8 memory,export,allocated,0,65536 memory,import,ordinary,0,65536 \
  memory,read-latency,allocated,0,8 memory,read-bandwidth,ordinary,0,65536 \
  memory,write-latency,ordinary,0,1 memory,write-bandwidth,allocated,0,4096 \
  memory,atomic-latency,ordinary,0,8 memory,atomic-rate,allocated,0,8 collective,barrier,,0,0 \
  collective,bcast,,0,512 collective,reduce,,0,8 collective,allreduce,,0,64 \
  collective,allgather,,0,1 collective,alltoall,,0,4096; do
  echo "$out" | grep -q "^$row,.*[0-9],[0-9].*,\(us\|MB/s\|messages/s\|operations/s\)$" ||
    fail "no figure for $row in: $out"
done
echo "$out" | grep -q '^# path: rank 1 on .* by ' || fail "the path is not told: $out"

out=$(timeout 120 $perf --fork 4 $quick --test latency --max 8 2>&1) || fail "--fork 4: $out"
echo "$out" | grep -q '^ *8 *[0-9.]* *[0-9.]*$' || fail "no row of 8 bytes: $out"
echo "$out" | grep -q '^# .* 4 processes' || fail "the number of processes is not told: $out"

out=$(timeout 120 $perf --fork 2 --level memory $quick --test write-latency,atomic-rate 2>&1) ||
  fail "remote memory: $out"
for row in 'memory *bytes *median us *best us' 'allocated *65536 *[0-9.]* *[0-9.]*' \
  'memory *bytes *median operations/s *best operations/s' 'ordinary *8 *[0-9]* *[0-9]*'; do
  echo "$out" | grep -q "^ *$row$" || fail "no row $row in: $out"
done

out=$(timeout 60 $perf --fork 1 --level memory $quick --csv 2>&1) || fail "--fork 1: $out"
for row in write-latency,ordinary,0,8 read-bandwidth,allocated,0,65536 atomic-rate,ordinary,0,8; do
  echo "$out" | grep -q "^memory,$row,.*[0-9],[0-9]" || fail "no figure for $row of self in: $out"
done
echo "$out" | grep -q '^# path: rank 0 on .* by self' || fail "the path to self is not told: $out"

if command -v /usr/bin/python3 >/dev/null 2>&1; then
  timeout 120 $perf $quick --test latency,posted --json |
    /usr/bin/python3 -c 'import json, sys; j = json.load(sys.stdin); assert len(j["figures"]) == 27, j' ||
    fail "--json is not JSON with 27 figures"
fi

# by hand
TORII_SIZE=2 TORII_RANK=1 TORII_JOB=torii-perf-$$ timeout 60 $perf $quick --test rate >/dev/null &
out=$(TORII_SIZE=2 TORII_RANK=0 TORII_JOB=torii-perf-$$ timeout 60 $perf $quick --test rate 2>&1) ||
  fail "by hand: $out"
wait $! || fail "rank 1 by hand"

# Processes of one node without shared memory have a network, and the report says why.
without_shm() { (trap '' XFSZ; ulimit -f 0; timeout 60 env "$1" $perf --fork 2 $quick --test rate 2>&1; echo $?) | cat; }
out=$(without_shm TORII_REPORT=1)
case $out in *"udp is tried, although the job is on one node: shm: "*"ulimit -f unlimited"*"# path: rank 1 on "*" by udp"*0) ;; *) fail "without shm: $out" ;; esac
# Why two processes do not reach each other: what did not open, and what does not exist.
out=$(without_shm TORII_DRIVERS=self,shm)
case $out in *"no driver reaches rank "*"; not open: shm: "*"ulimit -f unlimited"*1) ;; *) fail "nothing but shm: $out" ;; esac
# A task of a Slurm step without a PMI is no job of its own.
out=$(SLURM_STEP_NUM_TASKS=4 timeout 60 $perf $quick --test rate 2>&1) && fail "a step without a PMI: $out"
case $out in *"SLURM_STEP_NUM_TASKS=4: this process is one of 4, "*) ;; *) fail "a step without a PMI: $out" ;; esac
out=$(TORII_DRIVERS=self,smh timeout 60 $perf --fork 2 $quick --test rate 2>&1) && fail "TORII_DRIVERS=self,smh"
case $out in *"TORII_DRIVERS=self,smh: there is no driver 'smh'; known are "*) ;; *) fail "without smh: $out" ;; esac
# Where libcrypto gives no key, a network is left out, and nothing else.
config=$(mktemp) || exit 99
printf '%s\n' 'openssl_conf = all' '[all]' 'providers = list' '[list]' 'base = only' '[only]' 'activate = 1' >"$config"
out=$(OPENSSL_CONF=$config TORII_DRIVERS=self,shm,udp timeout 60 $perf --fork 2 $quick --test latency --max 8 2>&1) ||
  fail "without keys: $out"
case $out in *"# path: rank 1 on "*" by shm"*) ;; *) fail "without keys: $out" ;; esac
out=$(OPENSSL_CONF=$config TORII_DRIVERS=udp timeout 60 $perf --fork 2 $quick --test rate 2>&1) && fail "udp without keys"
case $out in *"no driver could be opened"*"udp: libcrypto "*" gives no key of P-256"*) ;; *) fail "udp without keys: $out" ;; esac
rm -f "$config"

wrong() {
  expected=$1
  shift
  out=$(timeout 20 $perf "$@" 2>&1)
  status=$?
  [ $status = 2 ] || fail "$*: exit status $status"
  [ "$out" = "torii-perf: $expected" ] || fail "$*: $out"
}
wrong "unknown option --fast; torii-perf --help lists the options" --fast
wrong "--max needs a value" --max
wrong "--max 3x: expected bytes from 0 to 1073741824, or with k, m or g" --max 3x
wrong "--window 0: expected an integer from 1 to 1024" --window 0
wrong "--min 8192 is above --max 16" --min 8k --max 16
wrong "--fork 1: one process alone measures remote memory only; add --level memory" --fork 1
wrong "--fork 3: processes are measured in pairs, the number must be even" --fork 3
wrong "--level mpi: unknown name; the names are tagged, portals, memory, collective and all" --level mpi
wrong "--test get-latency does not exist at these levels; add --level portals" --test get-latency
wrong "--test import does not exist at these levels; add --level memory" --level portals --test import
wrong "--test rate does not exist at these levels; add --level tagged" --level memory --test rate
wrong "--test bcast does not exist at these levels; add --level collective" --test bcast
wrong "--csv and --json exclude each other" --csv --json
timeout 20 $perf --help | grep -q '^usage: torii-perf' || fail "--help"
exit $failed
