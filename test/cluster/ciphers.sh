# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: encryption between nodes, with somebody who listens at the switch.

# heard CASE CIPHER LEAST MOST: of the datagrams of a job with this cipher so many can be read
heard() {
  local case=$1 listener end=$work/listener-may-end
  rm -f "$end"
  : >"$work/heard"
  cluster run --on switch timeout 120 /usr/bin/python3 "$here/listener.py" n2-0 "$end" >"$work/heard" 2>&1 </dev/null &
  listener=$!
  told '^listening$' "$work/heard"
  judge_torii "$case" n1:1,n2:1 -x TORII_LINK_CIPHER="$2" -- "$work/exchange" 1
  output_has "$case" "encryption between nodes: $2\$"
  touch "$end"
  wait $listener
  verdict "$case: what a listener can read" "$(awk -v least="$3" -v most="$4" \
    '/ readable$/ && $1 >= 100 && $3 >= least && $3 <= most {found = 1} END {exit !found}' "$work/heard" ||
    cat "$work/heard")"
}

torii_encrypts() {
  chosen torii-ciphers || return 0
  local cipher case
  torii_ready torii-ciphers exchange order silence || return 0
  cluster up 2 --share "$work" --share "$components"
  heard "torii-ciphers: none" none 50 1000000
  for cipher in aes-128-gcm chacha20-poly1305; do
    heard "torii-ciphers: $cipher" $cipher 0 0
    judge_torii "torii-ciphers: $cipher on a bad network" n1:1,n2:1 -x TORII_LINK_CIPHER=$cipher \
      -x TORII_DRIVERS=self,shm,fault:udp -x TORII_FAULT=drop=1%,duplicate=1%,reorder=2%,corrupt=0.1% -- \
      "$work/order" 2
    output_has "torii-ciphers: $cipher on a bad network" "counters:.* link_retransmits=[1-9]"
  done
  case="torii-ciphers: unequal settings"
  watch_torii "$case" n1:1,n2:1 -x TORII_LINK_CIPHER=aes-128-gcm "${recovery[@]}" -- sh -c \
    '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export TORII_LINK_CIPHER=chacha20-poly1305; exec "$0" "$@"' "$work/silence" 5
  output_has "$case" 'rank 1 .* is cut off: it has TORII_LINK_CIPHER=chacha20-poly1305, this process aes-128-gcm; set'
  output_has "$case" 'rank 0 .* is cut off: it has TORII_LINK_CIPHER=aes-128-gcm, this process chacha20-poly1305; set'
  verdict "$case" "$(same "ranks with an error in time" 2 \
    "$(grep -cE '^rank [01]: error after [01]\.[0-9] s: MPI_ERR' "$work/output")")"
  case="torii-ciphers: an unknown name"
  watch_torii "$case" n1:1,n2:1 -x TORII_LINK_CIPHER=aes --mca mtl_base_verbose 1 -- "$work/exchange" 0
  output_has "$case" "TORII_LINK_CIPHER: there is no cipher 'aes'; use one of none, aes-128-gcm, chacha20-poly1305"
  output_lacks "$case" '^ok$'
  cluster down
}
