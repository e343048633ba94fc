# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: two ranks of one node in containers, made by unshare, and by bubblewrap
# where that runs. Ranks that share no memory are on udp by themselves, and the report says why.

# together CASE COMMAND...: mpirun and its ranks are in the container that the command makes
together() {
  local case="torii-containers: one for all, $1" words
  shift
  mapfile -t words < <(over_torii n1:2 -- "$work/exchange" 0)
  judge "$case" '^ok$' 1 "$@" "$work/refuse" attach "${words[@]}"
  output_has "$case" 'rank . -> rank . on n1 .* by shm; refused:.* shm: cross-memory attach'
  output_lacks "$case" 'udp is tried'
}

# apart CASE REASON COMMAND...: the command makes a container for each rank
apart() {
  local case="torii-containers: $1" reason=$2
  shift 2
  judge_torii "$case" n1:2 -- "$@" "$work/exchange" 0
  output_has "$case" "torii report: rank .: udp is tried, although the job is on one node: $reason"
  output_has "$case" 'rank . -> rank . on n1 .* by udp; refused: shm: '
}

# As Docker's with --read-only, --cap-drop ALL and a /dev/shm that cannot be used.
narrow='mount -t tmpfs -o ro none /dev/shm && mount -o remount,bind,ro / &&
  exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
no_proc='mount -t tmpfs none /proc && exec "$@"'

# No driver opens where there are no random numbers. The job ends, and in the time of a start.
without_random() {
  local case="torii-containers: no getrandom" words begin=$SECONDS status
  mapfile -t words < <(over_torii n1:2 -x TORII_BOOT_DEADLINE_MS=5000 -- "$@")
  cluster run timeout -k 5 60 "${words[@]}" >"$work/output" 2>&1 </dev/null
  status=$?
  verdict "$case: ends" "$(
    [ $status -ne 0 ] || echo "exit status 0; "
    [ $((SECONDS - begin)) -le 20 ] || echo "took $((SECONDS - begin)) s")"
  output_has "$case" 'getrandom failed: .*allow it in the seccomp profile'
}

torii_in_containers() {
  chosen torii-containers || return 0
  local outside="the launcher is in another PID namespace" case
  local apart_by_unshare=(unshare --pid --ipc --fork --mount-proc)
  torii_ready torii-containers exchange || return 0
  find_check torii-containers || return 0
  ${CC:-cc} -O2 -o "$work/refuse" "$mpi/refuse.c" ||
    { report FAIL torii-containers "refuse.c does not compile"; return; }
  cluster up 1 --share "$work" --share "$components" --share "$(dirname "$check")"
  checked "torii-containers: torii-info" 0 10 "$(dirname "$check")/torii-info" --machine
  says "torii-containers: torii-info" 'processes of other PID namespaces are'
  together "by unshare" "${apart_by_unshare[@]}" sh -c "$narrow" sh
  apart "one for each rank, by unshare" "$outside" "${apart_by_unshare[@]}"
  apart "one for each rank, and ucx does not open" "$outside" env TORII_UCX_TLS=none "${apart_by_unshare[@]}"
  apart "no /proc" 'shm: /proc/sys/kernel/random/boot_id cannot be read' \
    unshare --mount sh -c "$no_proc" sh
  apart "no memfd" 'shm: .*memfd_create.*seccomp' "$work/refuse" memfd
  apart "no seals" 'shm: a segment of .*F_ADD_SEALS in the seccomp' "$work/refuse" seals
  without_random "$work/refuse" random "$work/exchange" 0
  case="torii-containers: user namespaces side by side"
  judge_torii "$case" n1:2 -- unshare --user --map-root-user "$work/exchange" 0
  output_has "$case" 'rank . -> rank . on n1 .* by shm'
  if cluster run bwrap --unshare-pid --dev-bind / / true >"$work/output" 2>&1 </dev/null; then
    together "by bubblewrap" bwrap --unshare-pid --unshare-ipc --ro-bind / / --bind /tmp /tmp \
      --dev /dev --proc /proc --cap-drop ALL
    apart "one for each rank, by bubblewrap" "$outside" bwrap --unshare-pid --unshare-ipc \
      --dev-bind / / --proc /proc
  else
    report SKIP "torii-containers: bubblewrap" "$(head -n 1 "$work/output")"
  fi
  cluster down
}
