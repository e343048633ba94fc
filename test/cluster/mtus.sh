# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: MTUs that differ between two nodes, or change under a job, and networks that
# begin to drop long packets. The switch drops what is too long for a port, and says nothing. Nodes cut
# their packets themselves, as a card does: what the kernel would hand over uncut fits every port.

# port_mtu BYTES DEVICE...: of ports of the switch
port_mtu() {
  local bytes=$1 device
  shift
  for device in "$@"; do cluster run --on switch ip link set "$device" mtu "$bytes"; done
}

# mtu_of NODE BYTES
mtu_of() { cluster run --on "$1" ip link set eth0 mtu "$2"; }

# Each step waits for what the one before has done to the transfer.
change_mtus() {
  moved && port_mtu 1500 n2-0 && moved && mtu_of n2 1500 && moved && mtu_of n1 1500 && moved &&
    port_mtu 1280 n2-0 && moved && mtu_of n2 1280 && moved
}

torii_between_mtus() {
  chosen torii-mtus || return 0
  local node hosts
  torii_ready torii-mtus bulk exchange || return 0
  cluster up 2 --mtu 9000 --share "$work" --share "$components"
  for node in n1 n2; do cluster run --on $node ip link set eth0 gso_max_segs 1; done
  judge_torii "torii-mtus: both have 9000" n1:1,n2:1 -- "$work/exchange" 0
  output_lacks "torii-mtus: both have 9000" "counters:.* udp_pieced=[1-9][0-9][0-9]"
  port_mtu 1500 n2-0
  mtu_of n2 1500
  for hosts in n1:1,n2:1 n2:1,n1:1; do
    judge_torii "torii-mtus: 9000 and 1500, $hosts" $hosts -- "$work/exchange" 0
    output_has "torii-mtus: 9000 and 1500, $hosts" "counters:.* udp_pieced=[1-9]"
  done
  cluster impair n2 --loss 1
  judge_torii "torii-mtus: 9000 and 1500 with loss" n1:1,n2:1 -- "$work/exchange" 0
  cluster impair n2 --loss 0
  for node in n1 n2; do cluster run --on $node ip link set eth0 gso_max_segs 1; done
  mtu_of n1 1500
  port_mtu 1280 n2-0
  mtu_of n2 1280
  judge_torii "torii-mtus: 1500 and 1280" n1:1,n2:1 -- "$work/exchange" 0
  port_mtu 9000 n2-0
  for node in n1 n2; do mtu_of $node 9000; done
  amid_transfer "torii-mtus: they shrink amid a transfer" 120 16 change_mtus
  output_has "torii-mtus: they shrink amid a transfer" 'udp: packets of 9000 bytes .* do not arrive any more'
  cluster down
}

# drop_longer BYTES WAY...: of what goes to n2 (egress) or comes from it (ingress), the switch drops IP
# packets that are longer, except those of TCP over IPv4, by which the launcher works.
drop_longer() {
  local bytes=$(($1 + 14)) way
  shift
  unfilter n2 0 2>/dev/null
  for way in "$@"; do
    filter n2 0 "$way" "8,40 0 0 12,21 0 2 2048,48 0 0 23,21 2 0 6,128 0 0 0,37 1 0 $bytes,6 0 0 4294967295,6 0 0 2"
  done
}

# Waits until 8 MB more have arrived, which is no matter of minutes.
goes_on() {
  local begin=$SECONDS
  moved && [ $((SECONDS - begin)) -le 20 ]
}

narrow_one_way() {
  goes_on && drop_longer 1500 egress && goes_on && told 'udp: packets of 9000 bytes .* do not arrive' && goes_on &&
    drop_longer 1280 egress && goes_on
}

narrow_both_ways() {
  goes_on && drop_longer 1500 egress ingress && goes_on && drop_longer 1280 egress ingress && goes_on
}

change_own_mtu() {
  goes_on && mtu_of n1 1500 && goes_on && mtu_of n1 1280 && goes_on
}

# Not even what needs no proof arrives. Short frames do, so both processes know that the other one lives;
# each ends with an error nevertheless, and one says what is wrong.
torii_cannot_pass() {
  local case="torii-narrow: nothing long arrives" dropper
  : >"$work/output"
  (told '^exchanging$' && drop_longer 1000 egress) &
  dropper=$!
  watch_torii "$case" n1:1,n2:1 -x TORII_PEER_DEADLINE_MS=3000 "${recovery[@]}" -- "$work/silence" 30
  wait $dropper
  output_has "$case" 'rank 1 on n2 \(pid [0-9]+\) by udp \(eth0 to .* is cut off: it answers, but a frame of .* has not arrived: packets of up to 1280 bytes by eth0 to .* or set TORII_UDP_MTU'
  verdict "$case" "$(same "ranks with an error in time" 2 \
    "$(grep -cE '^rank [01]: error after ([3-9]|1[0-5])\.[0-9] s: MPI_ERR' "$work/output")")"
}

torii_over_narrow_paths() {
  chosen torii-narrow || return 0
  local node steps
  torii_ready torii-narrow bulk silence || return 0
  cluster up 2 --mtu 9000 --share "$work" --share "$components"
  for steps in narrow_one_way narrow_both_ways change_own_mtu; do
    for node in n1 n2; do
      mtu_of $node 9000
      cluster run --on $node ip link set eth0 gso_max_segs 1
    done
    amid_transfer "torii-narrow: $steps" 120 16 $steps 64
    unfilter n2 0 2>/dev/null
  done
  mtu_of n1 9000
  torii_cannot_pass
  cluster down
}
