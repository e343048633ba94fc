# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: two interfaces between two nodes.

# speed_of OPTIONS...: MB/s of 64 MB from n1 to n2, without its fraction; 0 if that fails
speed_of() {
  local words
  mapfile -t words < <(over_torii n1:1,n2:1 "$@" -- "$work/bulk" 64)
  cluster run timeout -k 5 60 "${words[@]}" >"$work/output" 2>&1 </dev/null || { echo 0; return; }
  grep -q '^ok$' "$work/output" || { echo 0; return; }
  sed -n 's/^\([0-9]*\)\.[0-9]* MB\/s.*/\1/p' "$work/output"
}

# limit MBIT0 MBIT1: of all cables of the two rails
limit() {
  local node
  for node in n1 n2; do
    cluster impair $node 0 --rate "$1"
    cluster impair $node 1 --rate "$2"
  done
}

# faster CASE PERCENT: both rails carry so much of what the first one carries alone
faster() {
  local one two
  one=$(speed_of -x TORII_UDP_INTERFACES=eth0)
  two=$(speed_of)
  if [ "$one" -gt 0 ] && [ $((100 * two)) -ge $(($2 * one)) ]; then
    report PASS "$1"
  else
    report FAIL "$1" "$one MB/s by one rail, $two by both; $(tail -n 2 "$work/output" | xargs)"
  fi
}

torii_uses_rails() {
  chosen torii-rails || return 0
  torii_ready torii-rails bulk exchange || return 0
  cluster up 2 --rails 2 --share "$work" --share "$components"
  limit 200 200
  faster "torii-rails: two are faster than one" 140
  output_has "torii-rails: two are faster than one" 'answers at 10\.77\.0\..* by eth0'
  output_has "torii-rails: two are faster than one" 'answers at 10\.77\.1\..* by eth1'
  limit 200 40
  faster "torii-rails: a slow one is no hindrance" 95
  limit 200 200
  # A cable is pulled in the middle, and plugged in again. Only who then goes back to it gets through
  # when the other one is pulled.
  (sleep 2; cluster cut n2 0; sleep 2; cluster restore n2 0; sleep 2; cluster cut n1 1; sleep 3
    cluster restore n1 1) &
  judge_torii "torii-rails: cut and restored" n1:1,n2:1 -- "$work/bulk" 256 both
  output_has "torii-rails: cut and restored" \
    'does not answer by eth0 to 10\.77\.0\.2:[0-9]+ any more, but by eth1 to 10\.77\.1\.2'
  output_has "torii-rails: cut and restored" 'answers by eth0 to .* again'
  output_has "torii-rails: cut and restored" \
    'does not answer by eth1 to 10\.77\.1\.2:[0-9]+ any more, but by eth0'
  output_has "torii-rails: cut and restored" 'counters:.* udp_rails_lost=[1-9].* udp_rails_back=[1-9]'
  wait $!
  limit 0 0
  same_bridges
  cluster down
}

# The same bridge on every node, and a second rail without IPv4: nothing is configured.
same_bridges() {
  local node case="torii-rails: bridges and IPv6 only"
  for node in n1 n2; do
    cluster run --on $node sh -ec '
      ip link add name docker0 type bridge
      ip link add name container0 type veth peer name container1
      ip link set container0 master docker0
      for device in docker0 container0 container1; do ip link set $device up; done
      ip addr add 172.17.0.1/16 dev docker0
      ip -4 addr flush dev eth1'
  done
  judge_torii "$case" n1:1,n2:1 -- "$work/exchange" 1
  output_has "$case" 'answers at .* by eth0'
  output_has "$case" 'answers at \[fd77:1::.* by eth1'
  grep -E 'answers at .* by docker0|any more, but by' "$work/output" >"$work/complaint" &&
    report FAIL "$case" "$(head -n 2 "$work/complaint")"
}
