# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by the jobs of guests: an RDMA device, and the cases. The job has set $work (this guest's folder),
# $bin, $tree, $build, $mpirun, $mpi_words and $recovery (those of mpirun for Torii), and $long.

device=rxe0
export UCX_NET_DEVICES=$device:1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1

# An emulated processor is slow, so that a peer needs time to answer; what UCX and Torii wait for follows from
# this.
export TORII_PEER_DEADLINE_MS=4000

# Cases of the conformance kit for every run: frames of all sizes and in order, memory by the card, a peer
# that closes and one that is killed.
kit_cases="every_size gather ordered every_cookie_is_done_once upcalls_may_send sleepers_are_woken
  bad_addresses_are_refused taken_frames_outlive_disconnect everybody_to_everybody closing_is_reported
  cookies_end_when_the_peer_closes another_process_answers_and_closes another_process_is_killed
  another_process_is_killed_in_silence"
kit_cases_rc="put_writes get_reads bad_puts bad_gets"

# report PASS|FAIL|SKIP CASE REASON: one line for the runner
report() { echo "$1 $2${3:+: ${3//$'\n'/; }}" >>"$work/lines"; }

# The RDMA device, over the network interface $1 with the address $2. Its table of GIDs must have the one that
# is made of the address (RoCE v2).
make_device() {
  local ports=/sys/class/infiniband/$device/ports/1 try
  ulimit -l unlimited
  ip link set lo up && ip link set "$1" up && ip addr add "$2/24" dev "$1" &&
    rdma link add $device type rxe netdev "$1" || return 1
  for try in $(seq 50); do
    grep -q ACTIVE $ports/state && grep -q 0000:0000:ffff $ports/gids/* && return 0
    sleep 0.2
  done
  return 1
}

# run_cases CASE...
run_cases() {
  local case
  for case in "$@"; do
    echo "== $case"
    "case_${case%-*}" "${case#*-}"
  done
}

# --- the conformance kit ----------------------------------------------------------------------------

# case_kit TLS: each case of the kit is one here. A case of $kit_cases that is not run is a failure.
case_kit() {
  local tls=$1 must=$kit_cases filter='*' line name log=$work/kit-$1.log open= passed=" " failed=
  : >"$log"
  [ "$tls" != rc ] || must="$must $kit_cases_rc"
  [ -n "$long" ] || filter=$(printf ':*.%s' $must) filter=${filter#:\*.}
  while IFS= read -r line; do
    echo "$line" >>"$log"
    name=${line##*ucx.} name=${name%% *} name=${name%,}
    case $line in
      '[ RUN '*) open=$name ;;
      '[       OK '*) report PASS "kit-$tls: $name"; passed="$passed$name " open= ;;
      '[  FAILED  '*' ms)') report FAIL "kit-$tls: $name" "$(complaint "$log")"; failed="$failed $name" open= ;;
      '[  SKIPPED '*) open= ;;
    esac
  done < <(TORII_UCX_TLS=$tls timeout -k 5 "${long:+1}200" "$build/test/conformance/torii-conformance" \
    --driver ucx --filter "$filter" 2>&1)
  # Soft RoCE of Linux 6.12 tells twice that a queue pair is drained, and UCX 1.18 aborts.
  if [ "$tls" = rc ] && [ -n "$open" ] && ! dpkg-query -W libucx0 | grep -q '1\.13\.' &&
    grep -q "cb_id == UCS_CALLBACKQ_ID_NULL' failed" "$log"; then
    report SKIP "kit-$tls: $open and the cases after it" "an assertion of UCX's own ends the process, openucx/ucx#10432"
    return
  fi
  [ -z "$open" ] || report FAIL "kit-$tls: $open" "it did not end: $(tail -n 5 "$log")"
  for name in $must; do
    case "$passed$failed $open " in *" $name "*) ;; *) report FAIL "kit-$tls: $name" "was not run: $(tail -n 3 "$log")" ;; esac
  done
}

# complaint LOG: what the last case in it complains of
complaint() { awk '/^\[ RUN / { text = "" } !/^\[/ { text = text $0 " " } END { print text }' "$1" | cut -c 1-500; }

# --- Open MPI ----------------------------------------------------------------------------------------

# run_mpi HOSTS TLS LOG PROGRAM...: two ranks over ucx and no other network; with further $options for mpirun.
# TLS "any": Torii chooses driver and transports.
options=()
run_mpi() {
  local hosts=$1 tls=$2 log=$3 choice=(-x TORII_DRIVERS=self,ucx -x TORII_UCX_TLS="$2")
  shift 3
  [ "$tls" != any ] || choice=()
  timeout -k 5 "${limit:-100}" "$mpirun" --host "$hosts" --oversubscribe "${choice[@]}" \
    -x UCX_NET_DEVICES -x TORII_PEER_DEADLINE_MS -x TORII_REPORT=1 -x TORII_LOG=info \
    "${recovery[@]}" "${options[@]}" "${mpi_words[@]}" "$@" >"$log" 2>&1 </dev/null
}

# What the last run says of Torii, for a complaint.
said() { grep -aE '^torii\[|not true|error' "$1" | head -n 8; tail -n 4 "$1"; }

# The path that both ranks must report, over the verbs of this kind and this device.
path_over() { grep -aoE -m 1 "rank [01] -> rank [01] .* by ucx \([^)]*${1}_verbs/$device:1[^)]*\)" "$2"; }

# case_mpi TLS: over rc the card reads the long messages of "pingpong"
case_mpi() {
  local tls=$1 program log=$work/mpi.log status path
  for program in "pingpong 524288 16" order ${long:+probe modes collectives "reuse 16" "onesided malloc" "accumulates malloc"}; do
    case $program in *malloc) options=(--mca btl torii,self --mca osc rdma) ;; esac
    run_mpi localhost:2 "$tls" "$log" "$bin/${program%% *}" ${program#"${program%% *}"}
    status=$?
    options=()
    path=$(path_over "$tls" "$log")
    case $tls-$program in rc-pingpong*) grep -q ' payloads_read=[1-9]' "$log" || path= ;; esac
    cat "$log"
    if [ $status -eq 0 ] && grep -qx ok "$log" && [ -n "$path" ]; then
      report PASS "mpi-$tls: $program" "$path"
    else
      report FAIL "mpi-$tls: $program" "exit status $status, path '$path': $(said "$log")"
    fi
  done
}

# case_stop TLS: rank 1 is stopped for two deadlines while both exchange; nobody takes it for dead, and every
# byte is right
case_stop() {
  local log=$work/stop.log status path
  run_mpi localhost:2 "$1" "$log" "$bin/silence" 12 stop 9
  status=$?
  path=$(path_over "$1" "$log")
  cat "$log"
  if [ $status -eq 0 ] && grep -qx ok "$log" && [ -n "$path" ] && ! grep -q ' died' "$log"; then
    report PASS "stop-$1" "$path"
  else
    report FAIL "stop-$1" "exit status $status, path '$path': $(said "$log")"
  fi
}

# judge_death CASE TLS LOG HOST: rank 0 has said in time who is gone and by what it was reached
judge_death() {
  local died error
  died=$(grep -aoE -m 1 "rank 1 on $4 \(pid [0-9]+\) by ucx \([^)]*${2}_verbs/$device:1[^)]*\) died" "$3")
  error=$(grep -aoE -m 1 '^rank 0: error after [0-5]\.[0-9] s: MPI_ERR[A-Z_]*' "$3")
  cat "$3"
  if [ -n "$died" ] && [ -n "$error" ] && ! grep -qx ok "$3"; then
    report PASS "$1" "$died; $error"
  else
    report FAIL "$1" "$(said "$3")"
  fi
}

# case_kill TLS: rank 1 is killed while both exchange
case_kill() {
  run_mpi localhost:2 "$1" "$work/kill.log" "$bin/silence" 20 kill
  judge_death "kill-$1" "$1" "$work/kill.log" "$(hostname)"
}

# --- two guests ---------------------------------------------------------------------------------------

# make_pair N: this is guest N of two. eth0 is for the launcher, eth1 for the RDMA device.
make_pair() {
  local try
  printf '%s\n' '127.0.0.1 localhost' '10.77.0.1 guest1' '10.77.0.2 guest2' >/run/hosts
  mount --bind /run/hosts /etc/hosts && ip link set eth0 up && ip addr add "10.77.0.$1/24" dev eth0 &&
    make_device eth1 "10.77.1.$1" || exit 3
}

# The launcher's words for ranks on both guests.
between_guests=(--mca plm_rsh_agent "$tree/test/rdma/remote" --mca oob_tcp_if_include eth0)

serve_commands() { "$tree/test/rdma/remote" --serve 10.77.0.2; }

# case_choice any: without a word of the user's, ucx carries the messages between nodes that have a device
case_choice() {
  local log=$work/choice.log status path
  options=("${between_guests[@]}")
  run_mpi guest1:1,guest2:1 "$1" "$log" "$bin/order" 1
  status=$?
  options=()
  path=$(path_over rc "$log")
  cat "$log"
  if [ $status -eq 0 ] && grep -qx ok "$log" && [ -n "$path" ]; then
    report PASS "choice-$1" "$path"
  else
    report FAIL "choice-$1" "exit status $status, path '$path': $(said "$log")"
  fi
}

# case_link TLS: the other guest's link goes down while both ranks exchange
case_link() {
  local log=$work/link.log job
  options=("${between_guests[@]}")
  run_mpi guest1:1,guest2:1 "$1" "$log" "$bin/silence" 40 &
  job=$!
  until grep -qsx exchanging "$log" || ! kill -0 $job 2>/dev/null; do sleep 0.1; done
  if grep -q ' died' "$log" || ! kill -0 $job 2>/dev/null; then
    wait $job
    report FAIL "link-$1" "it ended before the link went down: $(said "$log")"
    return
  fi
  touch "$work/cut"
  wait $job
  touch "$work/restore"
  judge_death "link-$1" "$1" "$log" guest2
  sleep 1
}
