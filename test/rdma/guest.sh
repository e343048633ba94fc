# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Runs in the virtual machine, as root: soft RoCE over its network card, and the cases. They go to
# $work/cases, what they said to $work/said.
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
  local name=$1 seconds=$2 status begin=$SECONDS
  shift 2
  timeout -k 5 "$seconds" "$@" >/tmp/output 2>&1 </dev/null
  status=$?
  { echo "== $name: $((SECONDS - begin)) s"; cat /tmp/output; } >>"$work/said"
  verdict "$name" "$([ $status -eq 0 ] || echo "exit status $status: $(tail -n 3 /tmp/output | tr '\n' ' ')")"
}

# says CASE PATTERN: a line of the last output is like this
says() { verdict "$1" "$(grep -qE "$2" /tmp/output || echo "no line '$2': $(tail -n 5 /tmp/output | tr '\n' ' ')")"; }

# kit TRANSPORT [FILTER]: the conformance kit, whose time limits are for machines that are not emulated
kit() {
  case_of "conformance over $1" 600 env TORII_UCX_TLS="$1" UCX_RC_TIMEOUT=300ms UCX_UD_TIMEOUT=3s \
    UCX_KEEPALIVE_INTERVAL=500ms "$build/test/conformance/torii-conformance" --driver ucx ${2:+--filter "$2"}
}

# mpi CASE OPTIONS... -- PROGRAM...: two ranks over ucx alone
mpi() {
  local name=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  case_of "$name" 120 "$mpirun" -n 2 --oversubscribe --mca pml cm --mca mtl torii \
    -x TORII_DRIVERS=self,ucx -x TORII_REPORT=1 -x TORII_WAIT "${options[@]}" \
    --mca mca_base_component_path "SYS_DEFAULT:$components" "$@"
}

# over TRANSPORT: messages, by which way, and memory that is given back
over() {
  mpi "pingpong over $1" -x TORII_UCX_TLS="$1" -- "$work/pingpong"
  says "path over $1" "rank 0 -> rank 1 .* by ucx \\($1_verbs/rxe0:1"
  mpi "freed, re-used and forked memory over $1" -x TORII_UCX_TLS="$1" -- "$work/reuse" 16
}

ip link set eth0 up
ip addr add 10.77.0.1/24 dev eth0 # first: the address in the table of GIDs is made of it
rdma link add rxe0 type rxe netdev eth0
for try in $(seq 50); do
  grep -qx '4: ACTIVE' /sys/class/infiniband/rxe0/ports/1/state &&
    grep -q '0000:0000:ffff' /sys/class/infiniband/rxe0/ports/1/gids/* && break
  sleep 0.2
done
verdict "soft RoCE is there" "$(grep -qx '4: ACTIVE' /sys/class/infiniband/rxe0/ports/1/state || rdma link show)"

case_of "torii-info" 60 "$build/torii-info" --machine --drivers
says "torii-info shows the device" 'RDMA devices  *rxe0 \(Ethernet, ACTIVE\)'
says "torii-info shows the transport" 'transport and device .* [ru][cd]_verbs/rxe0:1'
(ulimit -l 64; "$build/torii-info" --machine) >/tmp/output 2>&1
says "torii-info tells what too little locked memory costs" 'locked memory  *64 KiB; .* raise memlock'
case_of "nothing of the C library is replaced" 60 env TORII_UCX_TLS=rc \
  "$build/test/unit/ucx_test" --gtest_filter='Ucx.ReplacesNothing*'
over rc
if [ -z "$long" ]; then
  kit rc "$short_kit"
else
  kit rc
  kit ud
  over ud
  mpi "what UCX chooses" -- "$work/pingpong"
  mpi "freed, re-used and forked memory over btl" --mca pml ob1 --mca btl torii,self -- \
    "$work/reuse" 16
  mpi "windows" --mca btl torii,self --mca osc rdma -- "$work/onesided" malloc
fi
echo end >"$work/end"
