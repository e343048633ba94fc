# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by test/mpi/run: programs over the emulated cards of torii-fabric.

# on_fabric OPTIONS...: mpirun is started by torii-fabric from now on.
on_fabric() {
  printf '#!/bin/sh\necho $$ >%s\nexec %s -- %s "$@"\n' "$work/emulator" "$(tool torii-fabric) $*" \
    "$launcher" >"$work/on_fabric"
  chmod +x "$work/on_fabric"
  MPIRUN=$work/on_fabric
}

# Programs over emulated cards: a rank on each node, and two of them. Then a rank dies, and then the
# emulator.
emulated_cards() {
  local launcher=$MPIRUN card nodes np program
  chosen emulated-cards || return 0
  if ! tool torii-fabric >/dev/null; then
    report SKIP emulated-cards "no torii-fabric beside $components"
    return
  fi
  while read -r card nodes np program; do
    [ -n "$card" ] || continue
    if ! build "$program"; then
      report FAIL emulated-cards "$program.c does not compile"
      continue
    fi
    on_fabric --card "$card" --nodes "$nodes" --faults ber=1e-8,seed=1
    judge "emulated-$card-$nodes-$program" "$np" 60 -x TORII_REPORT=1 -- "$work/$program"
    grep -q "torii report: rank 0 -> rank $((np - 1)) .* by $card" "$work/output" ||
      report FAIL "emulated-$card-$nodes-$program" "rank 0 reaches rank $((np - 1)) in another way"
    [ "$np" -eq "$nodes" ] || grep -q 'torii report: rank 0 -> rank 1 .* by shm' "$work/output" ||
      report FAIL "emulated-$card-$nodes-$program" "ranks of one node do not share memory"
    grep -q '^node1: [1-9][0-9]* .*interrupts' "$work/output" ||
      report FAIL "emulated-$card-$nodes-$program" "torii-fabric says nothing of its cards"
  done <<END
tnet 2 2 order
myrinet 2 2 order
qsnet 2 2 order
nectar 2 2 order
sci 2 2 order
tnet 4 4 collectives
tnet 4 8 requests
qsnet 4 8 collectives
skeleton 4 4 modes
myrinet 4 4 probe
nectar 4 4 collectives
sci 4 4 collectives
$(long_rows)
END
  for card in tnet qsnet nectar; do emulated_broadcasts "$card"; done
  [ "$long" = no ] || emulated_programs
  on_fabric --card tnet --nodes 4
  killed emulated-cards 4 "${recovery[@]}"
  emulator_dies
  MPIRUN=$launcher
}

# Each piece of a broadcast leaves its root once, as a multicast of the network: the counters say so,
# and the root's cable has carried the bytes little more than once.
emulated_broadcasts() {
  local label=emulated-$1-broadcasts count bytes datagrams carried
  if ! build broadcasts; then report FAIL "$label" "broadcasts.c does not compile"; return; fi
  on_fabric --card "$1" --nodes 4
  judge "$label" 4 60 -x TORII_REPORT=1 -- "$work/broadcasts"
  read -r count bytes < <(sed -n 's/^\([0-9]*\) broadcasts of \([0-9]*\) bytes/\1 \2/p' "$work/output")
  datagrams=$(sed -n 's/.*rank 3 counters:.* multicast_datagrams=\([0-9]*\).*/\1/p' "$work/output")
  carried=$(sed -n 's/^cable3a: [0-9]* packets, \([0-9]*\) bytes.*/\1/p' "$work/output")
  # The request for the last release is one more.
  if [ "$((${datagrams:-0} / ${count:-1}))" -eq 0 ] || [ "$((datagrams % count))" -gt 2 ]; then
    report FAIL "$label" "$count broadcasts left as ${datagrams:-no} multicasts"
  elif [ "${carried:-0}" -lt "$((count * bytes))" ] || [ "$carried" -gt "$((count * bytes * 3 / 2))" ]; then
    report FAIL "$label" "$((count * bytes)) bytes left the root as ${carried:-0}"
  elif grep -q 'multicast_gaps\|multicast_repairs\|multicast_fallbacks' "$work/output"; then
    report FAIL "$label" "a piece was asked for, or multicast was given up"
  fi
}

long_rows() {
  [ "$long" = no ] || printf '%s\n' "tnet 2 2 pingpong" "myrinet 2 2 pingpong" \
    "qsnet 2 2 pingpong" "nectar 2 2 pingpong" "sci 2 2 pingpong" "sci 4 8 collectives"
}

# LAMMPS and HPCC over cards compute what they do over Open MPI's own transport.
emulated_programs() {
  local card verdict name rest
  for card in tnet myrinet qsnet nectar sci; do
    on_fabric --card "$card" --nodes 4
    while read -r verdict name rest; do
      case $verdict in PASS | FAIL | SKIP) report "$verdict" "emulated-$card-$name" "$rest" ;; esac
    done < <(MPIRUN=$MPIRUN "$here/programs" --components "$components" --np 4 lammps-melt hpcc)
  done
}

# Every rank hears of it, and mpirun ends.
emulator_dies() {
  local before left job emulator mpirun try
  if ! build turns; then report FAIL emulator-dies "turns.c does not compile"; return; fi
  before=$(leftovers)
  rm -f "$work/emulator"
  launch 60 2 -- "$work/turns" 40 &
  job=$!
  for try in $(seq 100); do # until both ranks have a card
    sleep 0.2
    emulator=$(cat "$work/emulator" 2>/dev/null) &&
      [ "$(grep -c "torii-fabric-$emulator-" /proc/net/unix)" -ge 3 ] && break
  done
  sleep 0.5
  mpirun=$(pgrep -P "$emulator")
  mpirun=${mpirun:-none}
  kill -KILL "$emulator"
  wait "$job"
  for try in $(seq 100); do
    [ -d "/proc/$mpirun" ] || break
    sleep 0.2
  done
  left=$(new_leftovers "$before")
  if [ -d "/proc/$mpirun" ]; then
    kill "$mpirun"
    report FAIL emulator-dies "mpirun does not end"
  elif ! grep -q "torii-fabric (pid $emulator) has ended" "$work/output"; then
    report FAIL emulator-dies "nobody names the emulator: $(first_complaint)"
  elif ! grep -q 'rank . on .* died' "$work/output"; then
    report FAIL emulator-dies "nobody names the peer: $(first_complaint)"
  elif [ -n "$left" ]; then
    report FAIL emulator-dies "left behind: $left"
  else
    report PASS emulator-dies
  fi
}
