# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: collective operations between nodes, by multicast.

# judge_collectives CASE HOSTS OPTIONS... -- PROGRAM...: it went by multicast. coll/han of Open MPI 5.0
# gathers wrong data where types differ among ranks, and its launcher binds each to a core.
judge_collectives() {
  local case=$1 hosts=$2
  shift 2
  limit=${limit:-150} judge_torii "$case" "$hosts" --bind-to none --mca coll_han_priority 0 "$@"
  output_has "$case" 'collective operations of a group of [0-9]+: between [2-4] nodes by multicast \(.*udp\)'
  output_has "$case" ' multicast_datagrams=[1-9]'
}

torii_collectives() {
  chosen torii-collectives || return 0
  local hosts case alone=n1:1,n2:1,n3:1,n4:1 pairs=n1:2,n2:2,n3:2,n4:2
  local faulty=(-x TORII_DRIVERS=self,shm,fault:udp)
  torii_ready torii-collectives collective_kinds collectives || return 0
  cluster up 4 --share "$work" --share "$components"
  for hosts in $alone $pairs n1:3,n2:1,n4:2; do
    judge_collectives "torii-collectives: $hosts" $hosts -- "$work/collective_kinds"
  done
  judge_collectives "torii-collectives: every root" $alone -- "$work/collectives"
  judge_collectives "torii-collectives: communicators come and go" $pairs -- \
    "$work/collective_kinds" dups 200
  judge_collectives "torii-collectives: threads" $alone -- "$work/collective_kinds" threads
  for hosts in $alone $pairs; do
    case="torii-collectives: 1 % loss, $hosts"
    judge_collectives "$case" $hosts "${faulty[@]}" -x TORII_FAULT=drop=1%,duplicate=1%,reorder=1% -- \
      "$work/collective_kinds"
    output_has "$case" ' multicast_gaps=[1-9]'
    output_has "$case" ' multicast_repairs=[1-9]'
  done
  case="torii-collectives: switched off"
  judge_torii "$case" $alone -x TORII_COLLECTIVES=no -- "$work/collective_kinds"
  output_lacks "$case" ' multicast_datagrams=[1-9]'
  cluster down
}
