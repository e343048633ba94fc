# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: MTUs that differ between two nodes, or change under a job. The switch drops
# what is too long for a port, and says nothing. Nodes cut their packets themselves, as a card does: what
# the kernel would hand over uncut fits every port.

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
