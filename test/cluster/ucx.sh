# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: the driver ucx between nodes, over UCX's tcp, which needs no RDMA device.

# report_ucx_death CASE: both survivors of the last run say at once who died, and by which transport it
# was reached.
report_ucx_death() {
  local bad died
  died="rank 1 on n2 \\(pid [0-9]+\\) by ucx \\(tcp/eth0\\) died"
  bad=$(
    same "ranks that name the dead" 2 "$(grep -cE "$died" "$work/output")"
    same "ranks with an error in time" 2 \
      "$(grep -cE "^rank [02]: error after [01]\\.[0-9] s: MPI_ERR" "$work/output")"
    grep -q '^ok$' "$work/output" && echo "nobody noticed; "
  )
  [ -z "$bad" ] || bad="$bad$(said)"
  verdict "$1" "$bad"
}

# ports_rule add|del: both nodes cannot, or can again, reach TCP's ports from 41000 to 41999. Prints the
# nodes where that fails. The number of TCP: its name is in a file that some systems lack.
ports_rule() {
  local node family
  for node in n1 n2; do
    for family in -4 -6; do
      cluster run --on $node ip $family rule "$1" ipproto 6 dport 41000-41999 unreachable ||
        printf '%s ' "$node"
    done
  done
}

# Pairs that udp serves although ucx is open here, and why; ucx comes first by itself where it has
# something to drive.
ucx_or_udp() {
  local case failed_on tls=(-x TORII_UCX_TLS=tcp)
  judge_torii "torii-ucx: before udp" n1:1,n2:1 "${tls[@]}" -- "$work/exchange" 0
  output_has "torii-ucx: before udp" 'rank . -> rank . on n. .* by ucx \(tcp/eth0\)'
  judge_torii "torii-ucx: not by itself without a device" n1:1,n2:1 -- "$work/exchange" 0
  output_has "torii-ucx: not by itself without a device" 'rank . -> rank . on n. .* by udp'
  output_lacks "torii-ucx: not by itself without a device" 'ucx'
  judge_torii "torii-ucx: udp where ucx does not open" n1:1,n2:1 -x TORII_DRIVERS=self,shm,ucx,udp -- \
    "$work/exchange" 0
  output_has "torii-ucx: udp where ucx does not open" \
    'rank . -> rank . on n. .* by udp.*; refused: .*ucx: this node has no RDMA device'
  case="torii-ucx: udp where the other process has no ucx"
  judge_torii "$case" n1:1,n2:1 "${tls[@]}" -- sh -c \
    '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || unset TORII_UCX_TLS; exec "$0" "$@"' "$work/exchange" 0
  output_has "$case" 'rank 0 -> rank 1 on n2 .* by udp.*; refused: .*ucx: the other process has not opened it'
  case="torii-ucx: udp where UCX finds no way"
  judge_torii "$case" n1:1,n2:1 "${tls[@]}" -- sh -c \
    '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export UCX_TCP_AF_PRIO=inet6; exec "$0" "$@"' "$work/exchange" 0
  output_has "$case" 'rank . -> rank . on n. .* by udp.*; refused: .*ucx: UCX finds no way to the peer by .tcp.'
  case="torii-ucx: udp where UCX's packets do not pass"
  failed_on=$(ports_rule add)
  [ -z "$failed_on" ] || verdict "$case" "no rule on: $failed_on"
  judge_torii "$case" n1:1,n2:1 "${tls[@]}" -x UCX_TCP_PORT_RANGE=41000-41999 -- "$work/exchange" 0
  output_has "$case" 'rank . -> rank . on n. .* by udp.*; refused: .*ucx: '
  ports_rule del >/dev/null
  case="torii-ucx: udp where a cipher is set"
  judge_torii "$case" n1:1,n2:1 "${tls[@]}" -x TORII_LINK_CIPHER=aes-128-gcm -- "$work/exchange" 0
  output_has "$case" \
    'rank . -> rank . on n. .* by udp.*; refused: .*ucx: TORII_LINK_CIPHER=aes-128-gcm: what ucx sends is not encrypted'
  case="torii-ucx: nothing in clear text"
  watch_torii "$case" n1:1,n2:1 "${ucx[@]}" -x TORII_LINK_CIPHER=aes-128-gcm -- "$work/exchange" 0
  output_has "$case" 'not open: ucx: TORII_LINK_CIPHER=aes-128-gcm: what ucx sends is not encrypted'
  output_lacks "$case" '^ok$'
}

# leaves COMPONENT LINES OPTIONS...: a job over Open MPI's own components, which one process of each node
# announces in LINES lines
leaves() {
  local case="torii-ucx: a device that UCX cannot use, $1" lines=$2 words
  shift 2
  mapfile -t words < <(printf '%s\n' "$MPIRUN" --host n1:1,n2:1 -x TORII_REPORT=1 "$@"
    with_components
    printf '%s\n' "$work/pingpong")
  judge "$case" '^ok$' 1 "${words[@]}"
  verdict "$case leaves" "$(
    same lines "$lines" \
      "$(grep -cE 'mtl/torii leaves this job .* device of n[12]: ucx: UCX cannot use' "$work/output")"
    same "paths of Torii's" 0 "$(grep -c 'torii report: rank . -> ' "$work/output")")"
}

# Nodes that seem to have an RDMA device, which UCX cannot use: the job is left to Open MPI's own
# components unless somebody has named Torii.
ucx_leaves_jobs() {
  local node case="torii-ucx: a device that UCX cannot use"
  for node in n1 n2; do
    cluster run --on $node sh -ec 'mount -t tmpfs none /sys/class; mkdir -p /sys/class/infiniband/rdma0'
  done
  leaves mtl 2 --mca btl self,tcp
  leaves btl 0 --mca pml ob1
  if [ -n "${check:-}" ]; then
    checked "$case, torii-info" 0 10 sh -c 'ulimit -l 64 && exec "$@"' sh \
      "$(dirname "$check")/torii-info" --machine
    says "$case, torii-info" '^ *RDMA devices *rdma0$' \
      '^ *locked memory *64 KiB; RDMA devices reach no other memory' '/etc/security/limits.conf'
  fi
  judge_torii "$case, Torii by name" n1:1,n2:1 -- "$work/pingpong"
  output_has "$case, Torii by name" 'rank . -> rank . on n. .* by udp.*; refused: .*ucx: UCX cannot use'
}

torii_over_ucx() {
  chosen torii-ucx || return 0
  local program ucx=(-x TORII_DRIVERS=self,shm,ucx -x TORII_UCX_TLS=tcp)
  if ! ldconfig -p | grep -q 'libucp\.so\.0'; then
    report SKIP torii-ucx "UCX is missing (Debian: libucx0)"
    return
  fi
  torii_ready torii-ucx pingpong order probe modes collectives spawn onesided accumulates reuse exchange \
    delays silence || return 0
  cluster up 3 --share "$work" --share "$components"
  for program in pingpong order probe modes collectives "spawn connect" reuse; do
    judge_torii "torii-ucx: $program" n1:1,n2:1 "${ucx[@]}" -- "$work/${program%% *}" \
      ${program#"${program%% *}"}
  done
  judge_torii "torii-ucx: what was sent leaves while the sender computes" n1:1,n2:1 "${ucx[@]}" -- \
    "$work/delays"
  judge_torii "torii-ucx: two ranks on each node" n1:2,n2:2 "${ucx[@]}" -- "$work/exchange" 1
  output_has "torii-ucx: path inside" 'rank [01] -> rank [01] on n1 .* by shm'
  for program in "onesided malloc" "onesided alloc_mem" "accumulates malloc"; do
    judge_torii "torii-ucx: $program" n1:1,n2:1 "${ucx[@]}" --mca btl torii,self --mca osc rdma -- \
      "$work/${program%% *}" "${program#* }"
  done
  judge_torii "torii-ucx: windows" n1:2,n2:2 "${ucx[@]}" --mca btl torii,self --mca osc rdma -- \
    "$work/onesided" malloc
  ucx_or_udp
  if find_check torii-ucx; then
    TORII_UCX_TLS=tcp by_hand "torii-ucx: torii-check" 0 12 n1,n2
    says "torii-ucx: torii-check" '^1 pair of nodes: by ucx \(tcp/eth0\), round trip .*, 0\.00 % of '
    judge "torii-ucx: torii-perf" '^# path: rank 1 on n2 .* by ucx' 1 "$MPIRUN" --host n1:1,n2:1 "${ucx[@]}" \
      "$(dirname "$check")/torii-perf" --test latency --max 8 --iterations 3 --repetitions 1
  fi
  ucx+=(-x TORII_PEER_DEADLINE_MS=2000)
  watch_torii "torii-ucx: kill" n1:1,n2:1,n3:1 "${recovery[@]}" "${ucx[@]}" -- "$work/silence" 8 kill
  report_ucx_death "torii-ucx: kill"
  judge_torii "torii-ucx: a stop is no death" n1:1,n2:1,n3:1 "${ucx[@]}" -- "$work/silence" 6 stop 4.5
  ucx_leaves_jobs
  cluster down
}
