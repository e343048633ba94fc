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

torii_over_ucx() {
  chosen torii-ucx || return 0
  local program ucx=(-x TORII_DRIVERS=self,shm,ucx -x TORII_UCX_TLS=tcp)
  if ! ldconfig -p | grep -q 'libucp\.so\.0'; then
    report SKIP torii-ucx "UCX is missing (Debian: libucx0)"
    return
  fi
  torii_ready torii-ucx pingpong order probe modes collectives spawn onesided accumulates exchange delays \
    silence || return 0
  cluster up 3 --share "$work" --share "$components"
  for program in pingpong order probe modes collectives "spawn connect"; do
    judge_torii "torii-ucx: $program" n1:1,n2:1 "${ucx[@]}" -- "$work/${program%% *}" \
      ${program#"${program%% *}"}
  done
  output_has "torii-ucx: path" 'rank . -> rank . on n. .* by ucx'
  judge_torii "torii-ucx: what was sent leaves while the sender computes" n1:1,n2:1 "${ucx[@]}" -- \
    "$work/delays"
  judge_torii "torii-ucx: two ranks on each node" n1:2,n2:2 "${ucx[@]}" -- "$work/exchange" 1
  output_has "torii-ucx: path inside" 'rank [01] -> rank [01] on n1 .* by shm'
  for program in "onesided alloc_mem" "accumulates malloc"; do
    judge_torii "torii-ucx: $program" n1:1,n2:1 "${ucx[@]}" --mca btl torii,self --mca osc rdma -- \
      "$work/${program%% *}" "${program#* }"
  done
  judge_torii "torii-ucx: windows" n1:2,n2:2 "${ucx[@]}" --mca btl torii,self --mca osc rdma -- \
    "$work/onesided" malloc
  judge_torii "torii-ucx: udp where ucx does not open" n1:1,n2:1 -x TORII_DRIVERS=self,shm,ucx,udp -- \
    "$work/exchange" 0
  output_has "torii-ucx: udp where ucx does not open" \
    'rank . -> rank . on n. .* by udp.*; refused: .*ucx: this node has no RDMA device'
  ucx+=(-x TORII_PEER_DEADLINE_MS=2000)
  watch_torii "torii-ucx: kill" n1:1,n2:1,n3:1 "${recovery[@]}" "${ucx[@]}" -- "$work/silence" 8 kill
  report_ucx_death "torii-ucx: kill"
  judge_torii "torii-ucx: a stop is no death" n1:1,n2:1,n3:1 "${ucx[@]}" -- "$work/silence" 6 stop 4.5
  cluster down
}
