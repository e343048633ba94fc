# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: the virtual nodes themselves.

nodes_are_apart() {
  chosen nodes-are-apart || return 0
  local bad before
  before=$(ip -br link)
  bad=$(
    exec 2>&1
    cluster up 2 --rails 2 || echo "up fails; "
    same hostname n2 "$(cluster run --on n2 hostname)"
    for kind in ipc mnt net pid uts; do
      same "$kind namespaces" 3 "$(
        for at in n1 n2; do cluster run --on $at readlink /proc/self/ns/$kind; done |
          sort -u - <(readlink /proc/self/ns/$kind) | wc -l)"
    done
    same "process 1 of its own" 1 "$(cluster run --on n2 sh -c 'ps -e -o pid= | head -n 1' | xargs)"
    same interfaces "eth0 eth1 lo" "$(cluster run --on n1 ls /sys/class/net | xargs)"
    same "the switch's interfaces" "lo n1-0 n1-1 n2-0 n2-1 rail0 rail1" \
      "$(cluster run --on switch sh -c 'ip -br link | sed "s/[ @].*//" | sort | xargs')"
    cluster run --on n1 sh -c 'touch /tmp/a-file /dev/shm/a-file'
    same "files of another node" "" "$(cluster run --on n2 sh -c 'ls /tmp /dev/shm | grep a-file')"
    same "addresses that are not settled" "" \
      "$(for at in n1 n2; do cluster run --on $at ip -6 -o addr show tentative; done)"
    same "routes" "10.77.0.0/24 10.77.1.0/24" \
      "$(cluster run --on n1 ip -4 route | awk '{ print $1 }' | sort | xargs)"
    for address in 10.77.0.2 10.77.1.2 fd77::2 fd77:1::2; do
      answer=$(cluster run --on n1 timeout 5 /usr/bin/python3 "$here/echo.py" $address) || true
      same "answer from $address" "n1 asks n2 at $address" "$answer"
    done
    [ ! -e /tmp/a-file ] && [ ! -e /dev/shm/a-file ] || echo "files of a node outside of it; "
  )
  cluster down || bad="$bad down fails; "
  [ "$(ip -br link)" = "$before" ] || bad="$bad the machine's interfaces have changed; "
  verdict nodes-are-apart "$bad$(left)"
}

commands_are_run() {
  chosen commands-are-run || return 0
  local bad status begin
  cluster up 1
  bad=$(
    exec 2>&1
    cluster run sh -c 'exit 7'; same "exit status" 7 $?
    cluster run sh -c 'kill -9 $$'; same "status of a killed command" 137 $?
    cluster run no-such-command 2>/dev/null; same "status of a missing command" 127 $?
    same "standard input" "through" "$(echo through | cluster run cat)"
    same "environment" "given" "$(GIVEN=given cluster run sh -c 'echo $GIVEN')"
    cluster run --on n9 true 2>"$work/complaint" && echo "there is a node n9; "
    grep -q 'no node n9; there are n1, switch' "$work/complaint" || cat "$work/complaint"
    cluster up 1 2>"$work/complaint" && echo "up works twice; "
    grep -q 'is up already' "$work/complaint" || cat "$work/complaint"
    "$here/cluster" --name "$name" run sleep 1000 >/dev/null &
    pid=$!
    until cluster run pgrep -x sleep >/dev/null; do sleep 0.05; done
    kill $pid
    wait $pid
    sleep 0.2
    same "commands whose client has gone" "" "$(cluster run pgrep -x sleep)"
  )
  cluster down || bad="$bad down fails; "
  verdict commands-are-run "$bad$(left)"
}

cables_are_cut() {
  chosen cables-are-cut || return 0
  local bad
  cluster up 2 --rails 2
  # After a cut the kernel may look for the neighbour for some seconds.
  asks() { cluster run --on n1 timeout "${2:-10}" /usr/bin/python3 "$here/echo.py" "$1" >/dev/null 2>&1; }
  bad=$(
    exec 2>&1
    cluster cut n2 1
    asks 10.77.1.2 3 && echo "a cut cable carries; "
    asks 10.77.0.2 || echo "the other rail does not carry; "
    cluster restore n2 1
    asks 10.77.1.2 || echo "a restored cable does not carry; "
  )
  cluster down
  verdict cables-are-cut "$bad$(left)"
}

# The supervisor, or everything but it, is killed: all is gone, and down removes the rest.
crashes_leave_nothing() {
  chosen crashes-leave-nothing || return 0
  local bad= victim
  for victim in 1 2; do
    cluster up 2 || bad="$bad up fails; "
    kill -9 "$(sed -n "${victim}s/ .*//p" "/tmp/torii-cluster-$(id -u)/$name/processes")"
    for try in 1 2 3 4 5 6 7 8 9 10; do [ -z "$(processes)" ] && break; sleep 0.1; done
    [ -z "$(processes)" ] || bad="$bad processes outlive process $victim: $(processes | xargs); "
    cluster run true 2>/dev/null && bad="$bad a dead cluster runs commands; "
    [ $victim = 1 ] && cluster up 1 # also over what a crash has left
    cluster down || bad="$bad down fails; "
    bad="$bad$(left)"
  done
  verdict crashes-leave-nothing "$bad"
}

# An ordinary user, where the kernel lets users make namespaces. Root plays one.
users_may() {
  chosen users-may || return 0
  local user=() folder bad
  [ "$(id -u)" -ne 0 ] || user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  folder=$(mktemp -d) # the user may not see where we are
  cp "$here"/{agent,cluster,*.py} "$folder"
  chmod -R a+rX "$folder"
  as_user() { (cd / && HOME=/ ${user[@]+"${user[@]}"} "$folder/cluster" --name "$name" "$@"); }
  as_user up 1 2>"$work/complaint"
  if [ $? -eq 77 ]; then
    report SKIP users-may "$(cat "$work/complaint")"
  else
    bad=$(cat "$work/complaint"; same hostname n1 "$(as_user run hostname)"; as_user down)
    verdict users-may "$bad"
  fi
  rm -rf "$folder"
}
