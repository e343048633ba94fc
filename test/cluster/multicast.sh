# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: what happens to collective operations between nodes when processes die,
# when the switch does not pass multicast, and beside another job; how much leaves the root.
# TORII_TEST_LONG: more of the same.

multicast_pattern='collective operations of a group of [0-9]+ go on between [0-9]+ nodes'

# until_told COUNT PATTERN COMMAND...: runs it on n1 until so many lines of its output are like this, a
# minute at most. After a death Open MPI's launcher may go on when all ranks have ended.
until_told() {
  local count=$1 pattern=$2
  shift 2
  : >"$work/output"
  cluster run sh -c 'output=$1 count=$2 pattern=$3
    shift 3
    timeout -k 5 60 "$@" &
    job=$!
    while kill -0 $job && [ "$(grep -cE "$pattern" "$output")" -lt "$count" ]; do sleep 0.1; done
    kill $job
    wait' sh "$work/output" "$count" "$pattern" "$@" >"$work/output" 2>&1 </dev/null || true
}

# multicast_death CASE VICTIM ROOT: rank VICTIM is killed amid operations. The five others end with an
# error in time, and one at least says who died.
multicast_death() {
  local case="torii-multicast-deaths: $1" victim=$2 root=$3 bad words
  local in_time='^rank [0-5]: error after [0-7]\.[0-9] s: MPI_ERR'
  mapfile -t words < <(over_torii n1:2,n2:2,n3:2 "${recovery[@]}" -x TORII_MULTICAST_MIN=0 \
    -x TORII_PEER_DEADLINE_MS=4000 -- "$work/multicast" kill "$victim" "$root")
  until_told 5 "$in_time" "${words[@]}"
  bad=$(
    same "ranks with an error in time" 5 "$(grep -cE "$in_time" "$work/output")"
    grep -qE "rank $victim on n. .*died" "$work/output" || echo "nobody says that rank $victim died; "
  )
  [ -z "$bad" ] || bad="$bad$(grep -aE 'died|error after|^torii' "$work/output" | cut -c 1-200 | head -n 12)"
  verdict "$case" "$bad"
  output_has "$case" 'collective operations of a group of 6: between 3 nodes by multicast .*barrier, bcast'
}

torii_multicast_deaths() {
  chosen torii-multicast-deaths || return 0
  torii_ready torii-multicast-deaths multicast || return 0
  cluster up 3 --share "$work" --share "$components"
  multicast_death "the root, which leads its node" 2 2
  multicast_death "a leader" 4 0
  multicast_death "a plain rank" 5 0
  if [ -n "${TORII_TEST_LONG:-}" ]; then
    multicast_death "the root, which does not lead" 3 3
    multicast_death "the first rank" 0 2
  fi
  cluster down
}

# The switch passes no multicast to these nodes, or passes it again.
no_multicast_to() { for node in "$@"; do filter "$node" 0 egress "$no_multicast"; done; }
multicast_to() { for node in "$@"; do unfilter "$node" 0; done; }

# multicast_filtered CASE PATH NODES...: the switch passes nothing to these nodes from the beginning, so
# operations go by that path
multicast_filtered() {
  local case="torii-multicast: $1" path=$2
  shift 2
  no_multicast_to "$@"
  touch "$work/multicast-may-end"
  limit=120 judge_torii "$case" n1:1,n2:1,n3:1,n4:1 -- "$work/multicast" until "$work/multicast-may-end"
  output_has "$case" "$multicast_pattern $path"
  multicast_to "$@"
}

# It stops to pass it while a job runs, and later begins again.
multicast_comes_back() {
  local case="torii-multicast: filtered in mid-run, and back" switch
  rm -f "$work/multicast-may-end"
  : >"$work/output"
  (told '^exchanging$' && no_multicast_to n1 n2 n3 n4 && told "$multicast_pattern along a tree"
    multicast_to n1 n2 n3 n4
    told "$multicast_pattern by multicast \("
    touch "$work/multicast-may-end") &
  switch=$!
  limit=200 judge_torii "$case" n1:1,n2:1,n3:1,n4:1 -- "$work/multicast" until "$work/multicast-may-end"
  wait $switch
  output_has "$case" "$multicast_pattern along a tree"
  output_has "$case" "$multicast_pattern by multicast \("
  output_has "$case" ' multicast_fallbacks=[1-9]'
}

# Neither hears the other: groups have keys, addresses and ports of their own.
two_multicasts() {
  local case="torii-multicast: two jobs at once" hosts=n1:1,n2:1,n3:1,n4:1 words other
  touch "$work/multicast-may-end"
  mapfile -t words < <(over_torii $hosts -- "$work/multicast" until "$work/multicast-may-end")
  cluster run timeout -k 5 120 "${words[@]}" >"$work/other" 2>&1 </dev/null &
  other=$!
  limit=120 judge_torii "$case" $hosts -- "$work/multicast" until "$work/multicast-may-end"
  wait $other
  verdict "$case, the other one" "$(same lines 1 "$(grep -c '^ok$' "$work/other")")"
}

# datagrams NODES: how many leave the root of 100 broadcasts
datagrams() {
  local hosts
  hosts=$(seq -f 'n%g:1' -s , "$1")
  # Two members have messages, unless they are told otherwise.
  watch_torii datagrams "$hosts" -x TORII_MULTICAST_MIN=0 -- "$work/multicast" count 100
  sed -nE '/^torii report: rank 0 counters:/ { s/.* multicast_datagrams=([0-9]+).*/\1/p }' "$work/output"
}

# A machine that cannot keep up loses some, which go again; so the least of some runs counts.
root_sends_once() {
  local case="torii-multicast: what leaves the root of $2 nodes" try few many
  for try in 1 2 3 4; do
    few=$(datagrams "$1") many=$(datagrams "$2")
    [ "${many:-0}" -lt 100 ] || [ $((many * 2)) -gt $((few * 3)) ] || break
  done
  verdict "$case" "$(
    [ "${few:-0}" -ge 100 ] && [ "${many:-0}" -ge 100 ] || echo "not by multicast: $few, $many; $(said)"
    [ $((many * 2)) -le $((few * 3)) ] || echo "$many datagrams, $few of $1 nodes"
  )"
}

torii_multicast() {
  chosen torii-multicast || return 0
  torii_ready torii-multicast multicast || return 0
  cluster up 8 --share "$work" --share "$components"
  multicast_comes_back
  two_multicasts
  root_sends_once 2 8
  if [ -n "${TORII_TEST_LONG:-}" ]; then
    root_sends_once 2 4
    multicast_filtered "never delivered" 'along a tree' n1 n2 n3 n4
    multicast_filtered "not delivered to one node" 'by multicast, with copies' n3
  fi
  cluster down
}
