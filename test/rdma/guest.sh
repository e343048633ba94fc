# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Runs in the virtual machine, as root: soft RoCE over its network card, and the cases. They go to
# $work/cases.
work=/mnt/work
. "$work/settings"
cd /tmp || exit
ulimit -l unlimited
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HOME=/tmp
# Processes that spin take the emulated processor from each other.
export TORII_WAIT=sleep

# verdict CASE COMPLAINT: PASS if there is none
verdict() { if [ -z "$2" ]; then echo "PASS $1"; else echo "FAIL $1: $2"; fi >>"$work/cases"; }

# case_of CASE SECONDS COMMAND...: it succeeds in that time; its words are in /tmp/output
case_of() {
  local name=$1 seconds=$2 status
  shift 2
  timeout -k 5 "$seconds" "$@" >/tmp/output 2>&1 </dev/null
  status=$?
  verdict "$name" "$([ $status -eq 0 ] || echo "exit status $status: $(tail -n 3 /tmp/output | tr '\n' ' ')")"
}

# says CASE PATTERN: a line of the last output is like this
says() { verdict "$1" "$(grep -qE "$2" /tmp/output || echo "no line '$2': $(tail -n 5 /tmp/output | tr '\n' ' ')")"; }

# mpi CASE SECONDS OPTIONS... -- PROGRAM...: two ranks over ucx alone
mpi() {
  local name=$1 seconds=$2 options=()
  shift 2
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  case_of "$name" "$seconds" "$mpirun" -n 2 --oversubscribe --mca pml cm --mca mtl torii \
    -x TORII_DRIVERS=self,ucx -x TORII_REPORT=1 -x TORII_WAIT "${options[@]}" \
    --mca mca_base_component_path "SYS_DEFAULT:$components" "$@"
}

ip link set eth0 up
ip addr add 10.77.0.1/24 dev eth0 # first: the address in the table of GIDs is made of it
rdma link add rxe0 type rxe netdev eth0
for try in $(seq 50); do
  grep -qx '4: ACTIVE' /sys/class/infiniband/rxe0/ports/1/state &&
    grep -q '0000:0000:ffff' /sys/class/infiniband/rxe0/ports/1/gids/* && break
  sleep 0.2
done
verdict "rdma: soft RoCE" "$(grep -qx '4: ACTIVE' /sys/class/infiniband/rxe0/ports/1/state || rdma link show)"

case_of "rdma: torii-info" 60 "$build/torii-info" --machine --drivers
says "rdma: torii-info shows the device" 'RDMA devices  *rxe0 \(Ethernet, ACTIVE\)'
says "rdma: torii-info shows the transport" 'transport and device .* [ru][cd]_verbs/rxe0:1'
(ulimit -l 64; "$build/torii-info" --machine) >/tmp/output 2>&1
says "rdma: torii-info tells what too little locked memory costs" 'locked memory  *64 KiB; .* raise memlock'

for tls in rc ud; do
  export TORII_UCX_TLS=$tls
  case_of "rdma: conformance over $tls" 300 "$build/test/conformance/torii-conformance" --driver ucx
  mpi "rdma: pingpong over $tls" 120 -x TORII_UCX_TLS -- "$work/pingpong"
  says "rdma: path over $tls" "rank 0 -> rank 1 .* by ucx \\(${tls}_verbs/rxe0:1"
done
unset TORII_UCX_TLS
mpi "rdma: pingpong over what UCX chooses" 120 -- "$work/pingpong"
mpi "rdma: windows" 120 --mca btl torii,self --mca osc rdma -- "$work/onesided" malloc
echo end >"$work/end"
