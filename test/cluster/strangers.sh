# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by run: somebody on the network who hears all and can send, but has no key.

# Two jobs on the same nodes, and somebody at the switch who sends on what he heard of both, changed in
# many ways, and from addresses of its own. All bytes are right, the counters tell, nothing goes to the
# intruder but answers to recorded pings, and no rank needs memory for it. TORII_TEST_LONG: for a
# million datagrams.
torii_keeps_strangers_out() {
  chosen torii-strangers || return 0
  local words counter intruder second scan until=$work/the-intruder-has-ended
  local count=200000 bad
  [ -z "${TORII_TEST_LONG:-}" ] || count=1000000
  torii_ready torii-strangers exchange silence || return 0
  cluster up 2 --rails 2 --share "$work" --share "$components"
  rm -f "$until"
  : >"$work/intruder"
  (cluster run --on switch timeout 300 /usr/bin/python3 "$here/intruder.py" n2-0 "$count" n2-1; touch "$until") \
    >"$work/intruder" 2>&1 </dev/null &
  intruder=$!
  told '^listening$' "$work/intruder" # or the first words of the jobs are not heard
  cluster run --on n1 timeout 300 /usr/bin/python3 "$here/scan.py" 10.77.0.2 fd77::2 >"$work/scan" 2>&1 </dev/null &
  scan=$!
  mapfile -t words < <(over_torii n1:1,n2:1 -x TORII_UDP_INTERFACES=eth0 -- "$work/exchange" 5)
  cluster run timeout -k 5 60 "${words[@]}" >"$work/second" 2>&1 </dev/null &
  second=$!
  limit=330 judge_torii "torii-strangers: one job" n1:1,n2:1 -x TORII_UDP_INTERFACES=eth0 -- \
    "$work/exchange" 5 "$until"
  for counter in link_duplicates link_corrupt link_forged udp_foreign udp_refused; do
    output_has "torii-strangers: one job" "counters:.* $counter=[1-9]"
  done
  bad=$(same "ranks that grew by less than 1 MiB" 2 \
    "$(awk '/^rank . grew by/ && $5 < 1024' "$work/output" | wc -l)")
  verdict "torii-strangers: no memory for strangers" "${bad:+$bad$(grep 'grew by' "$work/output" | xargs)}"
  wait $second
  verdict "torii-strangers: the other job" \
    "$(same "exit status" 0 $?; same "lines 'ok'" 1 "$(grep -c '^ok$' "$work/second")")"
  wait $scan
  verdict "torii-strangers: the scan" "$(same ports "131070 ports" "$(cat "$work/scan")")"
  wait $intruder
  judge_intruder "torii-strangers" "$count" recorded-datagrams long-pings short-pings unknown-senders \
    recorded-hellos
  # At the cable of the rank that waits for the other one.
  : >"$work/intruder"
  cluster run --on switch timeout 60 /usr/bin/python3 "$here/intruder.py" n1-0 100000 >"$work/intruder" 2>&1 \
    </dev/null &
  intruder=$!
  told '^listening$' "$work/intruder"
  limit=60 judge_torii "torii-strangers: a peer is stopped" n1:1,n2:1 -x TORII_UDP_INTERFACES=eth0 -- \
    "$work/silence" 7 stop 6
  wait $intruder
  judge_intruder "torii-strangers, a peer is stopped" 1000 recorded-datagrams long-pings short-pings \
    unknown-senders
  cluster down
}

# judge_intruder CASE COUNT ATTACK...: it has sent so many, also of these, and got nothing of use
judge_intruder() {
  local attack case=$1 count=$2
  shift 2
  verdict "$case: the intruder" "$(awk -v least="$count" \
    '/datagrams of an intruder/ && $1 >= least {found = 1} END {exit !found}' "$work/intruder" ||
    cat "$work/intruder")"
  for attack in "$@"; do
    verdict "$case: $attack from elsewhere get no frame and no answer of three times their length" \
      "$(grep -qE "^$attack: [1-9].* 0 frames, at most 3 times" "$work/intruder" ||
        grep "^$attack:" "$work/intruder")"
  done
  grep -q '^unused-interface: 0 ' "$work/intruder" ||
    verdict "$case: no answer by an interface that is not used" \
      "$(grep -q '^unused-interface: .* 0 bytes came back' "$work/intruder" ||
        grep '^unused-interface:' "$work/intruder")"
}

# TORII_TEST_LONG, or this case alone by name: LAMMPS on four nodes, again and again until the intruder has sent a million. The same
# results as when nobody disturbs, and no process needs 1 MiB more.
torii_computes_among_strangers() {
  [ $list = yes ] || [ -n "${TORII_TEST_LONG:-}" ] || [ "$wanted" = " torii-strangers-lammps " ] || return 0
  chosen torii-strangers-lammps || return 0
  local case=torii-strangers-lammps until=$work/the-intruder-has-ended intruder bad runs=0 counter
  local melt=/usr/share/lammps/examples/melt/in.melt
  if ! command -v lmp >/dev/null || [ ! -f "$melt" ]; then
    report SKIP "$case" "no lmp or no $melt; apt-get install lammps lammps-examples"
    return
  fi
  torii_ready "$case" || return 0
  sed 's/^run.*/run 1000/' "$melt" >"$work/in.melt"
  cluster up 4 --share "$work" --share "$components"
  limit=120 melts "$case: alone" || { cluster down; return; }
  cp "$work/table" "$work/table-alone"
  cp "$work/peaks" "$work/peaks-alone"
  rm -f "$until"
  : >"$work/intruder"
  (cluster run --on switch timeout 900 /usr/bin/python3 "$here/intruder.py" n2-0 1000000; touch "$until") \
    >"$work/intruder" 2>&1 </dev/null &
  intruder=$!
  told '^listening$' "$work/intruder"
  while [ ! -e "$until" ]; do
    limit=300 melts "$case: run $((++runs))" || break
    verdict "$case: run $runs, results" "$(cmp "$work/table-alone" "$work/table" 2>&1)"
    bad=$(join "$work/peaks-alone" "$work/peaks" | awk '$3 >= $2 + 1024')
    verdict "$case: run $runs, memory" "${bad:+rank, KiB alone, KiB now: $(xargs <<<"$bad")}"
  done
  for counter in link_duplicates link_forged udp_foreign; do
    output_has "$case: run $runs" "counters:.* $counter=[1-9]"
  done
  wait $intruder
  judge_intruder "$case" 1000000 recorded-datagrams long-pings short-pings unknown-senders recorded-hellos
  cluster down
}

# melts CASE: runs it; its table of results in $work/table, each rank's KiB at most in $work/peaks
melts() {
  local words measured='
import os, resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print("peak of rank", os.environ["OMPI_COMM_WORLD_RANK"], peak, flush=True)
sys.exit(status)'
  mapfile -t words < <(over_torii n1:1,n2:1,n3:1,n4:1 -x OMP_NUM_THREADS=1 -- \
    /usr/bin/python3 -c MEASURED lmp -in "$work/in.melt" -log none)
  judge "$1" '^peak of rank' 4 "${words[@]/#MEASURED/$measured}"
  # Reports of other ranks may come between its lines.
  awk '/^Step /{on=1} /^Loop time/{on=0} on && /^(Step| *[0-9])/' "$work/output" >"$work/table"
  awk '/^peak of rank/{print $4, $5}' "$work/output" | sort >"$work/peaks"
  [ -s "$work/table" ]
}
