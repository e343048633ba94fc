# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: what uses Torii without an MPI, started by either launcher between nodes.

# between CASE NODES COMMAND...: a process on each of that many nodes; words of the launcher in $launch
between() {
  local case=$1 hosts
  hosts=$(seq -s , -f n%g "$2")
  shift 2
  checked "$case" 0 30 "${launch[@]}" "$hosts" "$@"
}

# The ring of NODES processes is closed: each is the only process of its node and hears from the one
# before it.
ring_is_closed() {
  local nodes=$1 rank before
  for rank in $(seq 0 $((nodes - 1))); do
    before=$(((rank + nodes - 1) % nodes))
    grep -qE "^rank $rank heard from rank $before, which is pid 1 of node [1-9][0-9]*$" "$work/output" ||
      echo "no word of rank $rank; "
  done
  same "nodes" "$nodes" "$(sed -n 's/^rank .* of node //p' "$work/output" | sort -u | wc -l)"
}

# portals_ready CASE: compiles the ring, and sets $check, $bin and $library. False: said why not.
portals_ready() {
  find_check "$1" || return
  bin=$(dirname "$check")
  for library in "$components" "$components/.."; do [ ! -f "$library/libtorii.so" ] || break; done
  ${CC:-cc} -O2 -I"$here/../../src/core" -o "$work/portals_ring" \
    "$here/../../contrib/examples/portals_ring.c" "$library/libtorii.so" -Wl,-rpath,"$library" ||
    { report FAIL "$1" "portals_ring.c does not compile"; return 1; }
}

# without_mpi CASE: a Portals program, torii-perf and torii-check, by $launch
without_mpi() {
  local case=$1 nodes
  for nodes in 2 4; do
    between "$case: a Portals program on $nodes nodes" $nodes "$work/portals_ring"
    verdict "$case: the ring of $nodes" "$(ring_is_closed $nodes)"
    between "$case: torii-perf on $nodes nodes" $nodes "$bin/torii-perf" --level portals \
      --test latency --max 0 --iterations 10 --repetitions 1
    says "$case: torii-perf on $nodes nodes" "$nodes processes" ' by udp'
    between "$case: torii-check on $nodes nodes" $nodes "$check"
    says "$case: torii-check on $nodes nodes" '^torii-check: all well$'
  done
}

# started_by CASE COMMAND OPTION: the launcher, and its option for a list of hosts
started_by() {
  local case=$1 launch=("$2" "$3") library bin
  chosen "$case" || return 0
  if ! command -v "$2" >/dev/null; then
    report SKIP "$case" "$2 is missing"
    return
  fi
  portals_ready "$case" || return 0
  cluster up 4 --share "$work" --share "$library" --share "$bin"
  without_mpi "$case"
  cluster down
}

torii_portals() {
  started_by torii-by-mpirun "$MPIRUN" --host
  started_by torii-by-mpiexec "$MPIEXEC" -hosts
}
