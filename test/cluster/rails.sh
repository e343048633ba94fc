# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: two interfaces between two nodes.

# carried DEVICE: bytes that n1 has sent by it
carried() {
  cluster run --on n1 cat /proc/net/dev | awk -v device="$1:" '$1 == device { print $10 }'
}

# limit MBIT0 MBIT1: of all cables of the two rails
limit() {
  local node
  for node in n1 n2; do
    cluster impair $node 0 --rate "$1"
    cluster impair $node 1 --rate "$2"
  done
}

# told PATTERN [FILE]: waits until the present output, or the file, has such a line, at most a minute
told() {
  local try
  for try in $(seq 600); do
    grep -qE "$1" "${2:-$work/output}" && return
    sleep 0.1
  done
  return 1
}

# Waits until 8 MB more have arrived.
moved() {
  local before try
  before=$(grep -c '^at .* MB$' "$work/output")
  for try in $(seq 600); do
    [ "$(grep -c '^at .* MB$' "$work/output")" -lt $((before + 2)) ] || return 0
    sleep 0.1
  done
  return 1
}

# amid_transfer CASE SECONDS MEGABYTES STEPS [KIB]: so many megabytes go both ways between n1 and n2, and
# more until the function STEPS is through, in messages of 4 MiB or so many KiB.
amid_transfer() {
  local case=$1 steps=$4 kib=${5:-4096} status
  rm -f "$work/bulk-may-end"
  : >"$work/output"
  { $steps; status=$?; touch "$work/bulk-may-end"; exit $status; } &
  limit=$2 judge_torii "$case" n1:1,n2:1 -- "$work/bulk" "$3" both "$work/bulk-may-end" "$kib"
  wait $! || report FAIL "$case" "it stood still: $(tail -n 3 "$work/output")"
}

# Each step waits for what the one before has done to the transfer.
cut_and_restore() {
  moved && cluster cut n2 0 &&
    told 'does not answer by eth0 to 10\.77\.0\.2:[0-9]+ any more, but by eth1' && moved &&
    cluster restore n2 0 &&
    told 'answers by eth0 to (10\.77\.0\.2|\[fd77::2\]):.* again' &&
    told 'answers by eth0 to (10\.77\.0\.1|\[fd77::1\]):.* again' &&
    moved && cluster cut n1 1 &&
    told 'does not answer by eth1 to 10\.77\.1\.2:[0-9]+ any more, but by eth0' && moved
  cluster restore n2 0
  cluster restore n1 1
}

# share CASE LEAST MOST: 64 MB go from n1 to n2, so many percent of them by the second rail
share() {
  local before0 before1 by0 by1 percent
  before0=$(carried eth0) before1=$(carried eth1)
  judge_torii "$1" n1:1,n2:1 -- "$work/bulk" 64
  by0=$(($(carried eth0) - before0)) by1=$(($(carried eth1) - before1))
  percent=$((100 * by1 / (by0 + by1 + 1)))
  [ $percent -ge "$2" ] && [ $percent -le "$3" ] ||
    report FAIL "$1" "$percent % by the second rail; $(tail -n 2 "$work/output" | xargs)"
}

torii_uses_rails() {
  chosen torii-rails || return 0
  torii_ready torii-rails bulk exchange || return 0
  cluster up 2 --rails 2 --share "$work" --share "$components"
  limit 200 200
  share "torii-rails: two share the work" 25 75
  output_has "torii-rails: two share the work" 'answers at 10\.77\.0\..* by eth0'
  output_has "torii-rails: two share the work" 'answers at 10\.77\.1\..* by eth1'
  limit 200 60
  share "torii-rails: a slow one has less of it" 5 40
  limit 200 200
  # A cable is pulled in the middle, and plugged in again. Only who then goes back to it gets through
  # when the other one is pulled.
  amid_transfer "torii-rails: cut and restored" 300 64 cut_and_restore
  output_has "torii-rails: cut and restored" \
    'does not answer by eth0 to 10\.77\.0\.2:[0-9]+ any more, but by eth1 to 10\.77\.1\.2'
  output_has "torii-rails: cut and restored" 'answers by eth0 to .* again'
  output_has "torii-rails: cut and restored" \
    'does not answer by eth1 to 10\.77\.1\.2:[0-9]+ any more, but by eth0'
  output_has "torii-rails: cut and restored" 'counters:.* udp_rails_lost=[1-9].* udp_rails_back=[1-9]'
  limit 0 0
  nothing_configured
  cluster down
}

# The same bridge on every node, and a second rail without IPv4: nothing is configured.
nothing_configured() {
  local case="torii-rails: bridges and IPv6 only"
  same_bridges
  judge_torii "$case" n1:1,n2:1 -- "$work/exchange" 1
  output_has "$case" 'answers at .* by eth0'
  output_has "$case" 'answers at \[(fd77:1::|fe80:).* by eth1'
  grep -aE 'answers at .* by docker0|any more, but by' "$work/output" >"$work/complaint" &&
    report FAIL "$case" "$(head -n 2 "$work/complaint")"
}
