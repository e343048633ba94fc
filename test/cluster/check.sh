# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: torii-check, by hand on a list of hosts and under the launchers.

# Where torii-check is: beside the components of a build tree, or in the prefix.
find_check() {
  local dir
  transport=torii
  find_components
  for dir in "$components/.." "$components/../../bin"; do
    [ -x "$dir/torii-check" ] && check=$(cd "$dir" && pwd)/torii-check && return
  done
  report SKIP "$1" "there is no torii-check beside $components"
  return 1
}

# checked CASE STATUS SECONDS COMMAND...: it ends with that status and in that time, and says so; its
# words are in $work/output
checked() {
  local case=$1 status=$2 seconds=$3 begin found
  shift 3
  begin=$SECONDS
  cluster run timeout -k 5 60 "$@" >"$work/output" 2>&1 </dev/null
  found=$?
  verdict "$case" "$(
    [ $found -eq "$status" ] || echo "exit status $found, not $status: $(tail -n 8 "$work/output")"
    [ $((SECONDS - begin)) -le "$seconds" ] || echo "took $((SECONDS - begin)) s, not $seconds; "
  )"
}

# says CASE PATTERN...: each is in a line of the last output
says() {
  local case=$1 pattern
  shift
  for pattern in "$@"; do
    grep -qE -- "$pattern" "$work/output" ||
      report FAIL "$case" "no line '$pattern': $(cat "$work/output")"
  done
}

# by_hand CASE STATUS SECONDS HOSTS OPTIONS...
by_hand() {
  local case=$1 status=$2 seconds=$3 hosts=$4
  shift 4
  checked "$case" "$status" "$seconds" "$check" --hosts "$hosts" --launch "$here/agent" "$@"
}

# Kills torii-check on the node, a moment after it has appeared there.
kill_check() {
  cluster run --on "$1" sh -c 'for try in $(seq 400); do
    pid=$(pgrep -x torii-check) && sleep 0.7 && kill -9 $pid && exit
    sleep 0.05
  done'
}

well() {
  local case="torii-check: all well"
  by_hand "$case" 0 12 n1,n2,n3:2
  says "$case" '^3 pairs of nodes: by udp \(eth0, eth1\), round trip .* path MTU 1500, multicast works$' \
    '^1 pair inside nodes: by shm, ' '^torii-check: all well$'
  by_hand "$case, for programs" 0 12 n1,n2 --json
  /usr/bin/python3 -c 'import json, sys
rows = json.load(sys.stdin)["ways"]
assert sorted((r["from"], r["interface"], r["to address"]) for r in rows) == [
    ("n1", "eth0", "10.77.0.2"), ("n1", "eth1", "10.77.1.2"),
    ("n2", "eth0", "10.77.0.1"), ("n2", "eth1", "10.77.1.1")], rows
assert all(0 < float(r["least round trip, us"]) <= float(r["median, us"]) < 1e5 for r in rows), rows
' <"$work/output" 2>"$work/complaint" ||
    report FAIL "$case, for programs" "$(tail -n 1 "$work/complaint")"
  # The variables that are set here hold there, too.
  TORII_UDP_INTERFACES=eth1 by_hand "$case, one interface named" 0 12 n1,n2
  says "$case, one interface named" '^1 pair of nodes: by udp \(eth1\), '
  case="torii-check: same bridges"
  same_bridges
  by_hand "$case" 0 12 n1,n2 --verbose
  says "$case" '^note: docker0 of n1, n2: has an address that other nodes have as well' \
    '^1 pair of nodes: by udp \(eth0, eth1\)'
}

under_launchers() {
  local killer case="torii-check: under mpirun"
  if ! command -v "$MPIRUN" >/dev/null; then
    report SKIP "$case" "$MPIRUN is missing"
  else
    checked "$case" 0 20 "$MPIRUN" --host n1:2,n2:2,n3:1 "$check" --verbose
    says "$case" '^3 pairs of nodes: by udp' '^2 pairs inside nodes: by shm' 'multicast works$' \
      '^torii-check: all well$'
    case="torii-check: containers of one node"
    checked "$case" 0 20 "$MPIRUN" --host n1:2 unshare --pid --ipc --fork --mount-proc "$check"
    says "$case" '^1 pair of nodes: by udp'
    case="torii-check: a container beside its node"
    # One command: Open MPI 5.0.7's mpirun crashes where there are two programs.
    checked "$case" 1 20 "$MPIRUN" --host n1:2 sh -c \
      '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec unshare --pid --ipc --fork --mount-proc "$0"
       exec "$0"' "$check"
    says "$case" '^FAILURE: processes of one node: n1' '^  remedy: set TORII_DRIVERS'
    case="torii-check: a rank dies under mpirun"
    kill_check n2 &
    killer=$!
    checked "$case" 137 20 "$MPIRUN" --host n1:1,n2:1,n3:1 "$check"
    wait $killer
  fi
  case="torii-check: under hydra"
  if ! command -v "$MPIEXEC" >/dev/null; then
    report SKIP "$case" "$MPIEXEC is missing"
  else
    checked "$case" 0 20 "$MPIEXEC" -hosts n1:1,n2:2 "$check"
    says "$case" '^1 pair of nodes: by udp' '^1 pair inside nodes: by shm' '^torii-check: all well$'
  fi
}

# filter NODE RAIL WAY PROGRAM: a program of tc for what the node sends (ingress of the switch's
# port), or what it is sent (egress)
filter() {
  cluster run --on switch sh -c "tc qdisc add dev $1-$2 clsact 2>/dev/null
    tc filter add dev $1-$2 $3 bpf bytecode '$4' direct-action"
}
unfilter() { cluster run --on switch tc qdisc del dev "$1-$2" clsact; }

# Lets pass what is not IPv4, and of that what is not to 224.0.0.0/4.
no_multicast='7,40 0 0 12,21 0 4 2048,48 0 0 30,84 0 0 240,21 0 1 224,6 0 0 2,6 0 0 4294967295'

bad_networks() {
  local rail case="torii-check: a rail is cut"
  cluster cut n2 1
  by_hand "$case" 0 12 n1,n2,n3
  says "$case" '^warning: eth1 of n2: has no carrier: not used' '^  remedy: .*cable'
  by_hand "$case, strictly" 1 12 n1,n2,n3 --strict
  cluster restore n2 1

  case="torii-check: one direction only"
  for rail in 0 1; do filter n2 $rail ingress '1,6 0 0 2'; done
  by_hand "$case" 1 12 n1,n2,n3
  says "$case" '^FAILURE: network between n1 and n2: no way; tried 10\.77\.0\.2 \(by eth0\)' \
    'n2: .*packets of n1 arrive at n2, but not those of n2 at n1' '^  remedy: let UDP pass' \
    '^torii-check: a job would fail: 2 failures'
  for rail in 0 1; do unfilter n2 $rail; done

  case="torii-check: multicast blocked"
  for rail in 0 1; do filter n2 $rail ingress "$no_multicast"; done
  by_hand "$case" 0 12 n1,n2,n3
  says "$case" '^warning: multicast between nodes: n1 does not hear n2, n3 does not hear n2$' \
    '^  remedy: let 239\.192\.0\.0/14 pass'
  for rail in 0 1; do unfilter n2 $rail; done

  # A switch that forgets who has joined: a moment is enough for a check to look well.
  case="torii-check: multicast stops"
  (sleep 3; for rail in 0 1; do filter n2 $rail egress "$no_multicast"; done) &
  by_hand "$case" 0 20 n1,n2 --multicast 8
  wait $!
  says "$case" '^warning: multicast between nodes: after [0-9] s n2 does not hear n1 any more$' \
    '^  remedy: most likely a switch snoops IGMP without a querier'
  for rail in 0 1; do unfilter n2 $rail; done

  case="torii-check: loss"
  for rail in 0 1; do cluster impair n2 $rail --loss 5; done
  by_hand "$case" 0 12 n1,n2 --json
  # Both ways lose 5 % of some 200 packets by each of two rails: the mean is within four deviations.
  /usr/bin/python3 -c 'import json, sys
data = json.load(sys.stdin)
lost = [float(r["lost"].split()[0]) for r in data["ways"]]
assert len(lost) == 4 and abs(sum(lost) / 4 - 5) < 3, lost
assert any(f["severity"] == "warning" and f["thing"].startswith("loss from n")
           for f in data["findings"]), data["findings"]
' <"$work/output" 2>"$work/complaint" || report FAIL "$case" "$(tail -n 1 "$work/complaint")"
  for rail in 0 1; do cluster impair n2 $rail --loss 0; done

  case="torii-check: MTU mismatch"
  cluster run --on n1 ip link set eth0 mtu 9000
  TORII_UDP_INTERFACES=eth0 by_hand "$case" 0 12 n1,n2
  says "$case" '^warning: MTU of n1 to n2 by eth0: the ends differ; eth0 has MTU 9000, eth0 of n2 has 1500' \
    '^  remedy: .*TORII_UDP_MTU=1500'
  TORII_UDP_MTU=1500 TORII_UDP_INTERFACES=eth0 by_hand "$case, with the remedy" 0 12 n1,n2
  cluster run --on n1 ip link set eth0 mtu 1500
}

bad_nodes() {
  local node killer case="torii-check: a dead host"
  by_hand "$case" 1 12 n1,n9,n2
  says "$case" '^FAILURE: torii-check on n9: ended, exit status 255: agent: there is no node n9$' \
    '^1 pair of nodes: by udp'

  case="torii-check: a silent host"
  printf '#!/bin/sh\n[ "$1" != n2 ] || exec sleep 100\nexec "%s" "$@"\n' "$here/agent" >"$work/slow"
  chmod +x "$work/slow"
  checked "$case" 1 8 "$check" --hosts n1,n2,n3 --launch "$work/slow" --deadline 5
  says "$case" '^FAILURE: torii-check on n2: silent for 2\.[5-9] s$' '^1 pair of nodes: by udp'

  case="torii-check: a process dies"
  kill_check n2 &
  killer=$!
  by_hand "$case" 1 12 n1,n2,n3
  wait $killer
  says "$case" '^FAILURE: (results of|torii-check on) n2: .*(137|signal 9|exit status)' '^torii-check: a job would fail'

  case="torii-check: attach is refused"
  ${CC:-cc} -O2 -o "$work/refuse" "$mpi/refuse.c" ||
    { report FAIL "$case" "refuse.c does not compile"; return; }
  printf '#!/bin/sh\nexec "%s" attach "%s" "$@"\n' "$work/refuse" "$check" >"$work/without"
  chmod +x "$work/without"
  by_hand "$case" 0 12 n1,n2:2 --program "$work/without"
  says "$case" '^warning: cross-memory attach on n1, n2: refused: Operation not permitted$' \
    '^  remedy: .*seccomp'

  case="torii-check: nothing is left"
  for node in n1 n2 n3; do
    verdict "$case on $node" \
      "$(same processes "" "$(cluster run --on $node pgrep -x torii-check | xargs)")"
  done
}

# check_case NAME FUNCTION: on nodes of its own
check_case() {
  chosen "$1" || return 0
  find_check "$1" || return 0
  cluster up 3 --rails 2 --share "$work" --share "$(dirname "$check")"
  $2
  cluster down
}

torii_check() {
  check_case torii-check well
  check_case torii-check-launchers under_launchers
  check_case torii-check-networks bad_networks
  check_case torii-check-nodes bad_nodes
}
