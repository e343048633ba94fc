# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: lossy groups between nodes.

# group_members CASE SECONDS WORDS...: a member on each of three nodes; what they say is in
# $work/member.N
group_members() {
  local case=$1 seconds=$2 node pids=() bad=
  shift 2
  rm -rf "$work/group"
  mkdir "$work/group"
  for node in 1 2 3; do
    cluster run --on n$node env "$@" timeout -k 5 $((seconds + 30)) "$group_frames" "$work/group" \
      $((node - 1)) 3 "$seconds" >"$work/member.$node" 2>&1 </dev/null &
    pids+=($!)
  done
  wait "${pids[@]}"
  for node in 1 2 3; do
    grep -q '^ok$' "$work/member.$node" || bad="$bad$(cat "$work/member.$node")"
  done
  verdict "$case" "$bad"
}

# Somebody at the switch sends on to the group what he heard of it, changed in many ways.
torii_groups() {
  chosen torii-groups || return 0
  local intruder counter folder group_frames=
  transport=torii
  find_components
  for folder in "$components/.." "$here/../../build"; do
    [ ! -x "$folder/test/cluster/group_frames" ] || group_frames=$(cd "$folder/test/cluster" && pwd)/group_frames
  done
  [ -n "$group_frames" ] ||
    { report SKIP torii-groups "make -C build test/cluster/group_frames was not done"; return; }
  cluster up 3 --share "$work" --share "$(dirname "$group_frames")"
  group_members "torii-groups: three nodes" 2 TORII_UDP_INTERFACES=eth0
  verdict "torii-groups: frames do not come back" \
    "$(same "members that heard themselves" 0 "$(grep -l 'udp_own=[1-9]' "$work"/member.? | wc -l)")"
  group_members "torii-groups: encrypted" 2 TORII_LINK_CIPHER=aes-128-gcm
  cluster run --on switch timeout 60 /usr/bin/python3 "$here/intruder.py" n2-0 20000 >"$work/intruder" \
    2>&1 </dev/null &
  intruder=$!
  group_members "torii-groups: an intruder" 6 TORII_UDP_INTERFACES=eth0
  wait $intruder
  for counter in link_forged link_corrupt link_duplicates udp_foreign; do
    grep -q "$counter=[1-9]" "$work/member.2" ||
      report FAIL "torii-groups: an intruder" "no $counter: $(cat "$work/member.2" "$work/intruder")"
  done
  cluster down
}
