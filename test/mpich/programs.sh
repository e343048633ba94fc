# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by test/mpich/run: builds programs of the suite, runs them as the lines of its lists say, and
# judges them as its own runner does, which builds them one by one.

cluster() { "$top/test/cluster/cluster" --name "mpich-$$" "$@"; }

# The command that starts the launcher: on the first node, and it finds the others.
where=()
start_nodes() {
  seq -f 'n%.0f:1' "$nodes" >"$suite/hosts"
  cluster up "$nodes" --share "$cache" --share "$mpich" --share "$torii" || exit
  trap 'cluster down' EXIT
  where=(cluster run env HYDRA_HOST_FILE="$suite/hosts")
}

# All programs use the driver ucx between nodes, as the report of one of them shows: what it says is not a
# program's output.
choose_ucx() {
  local out=$suite/ucx-report
  export TORII_DRIVERS=self,shm,ucx TORII_UCX_TLS=$ucx
  "$mpich/bin/mpicc" -o "$suite/hello" "$here/hello.c" &&
    "${where[@]}" env TORII_REPORT=1 timeout -k 10 "$limit" "$mpich/bin/mpiexec" -n "$nodes" "$suite/hello" \
      >"$out" 2>&1 </dev/null || die "hello.c does not run over ucx: $(tail -n 3 "$out")"
  grep -aom 1 -E 'rank [0-9]+ -> rank [0-9]+ on n[0-9]+ .* by ucx \([^)]*\)' "$out" || die "no path by ucx: $(tail -n 3 "$out")"
}

# over_cards RANKS COMMAND...: torii-fabric starts it. What this says of its cards is not the command's
# output; but a program whose ranks leave them alone fails.
over_cards() {
  local emulated=4 report status
  [ "$1" -le 4 ] || emulated=$1
  report=$(mktemp "$suite/cards.XXXXXX") || die "$suite cannot be written"
  "$torii/bin/torii-fabric" --card "$card" --nodes "$emulated" --topology fattree -- \
    bash -c 'exec "$@" 2>&1' - "${@:2}" 2>"$report"
  status=$?
  grep -q '^torii-fabric: .*; [1-9][0-9]* processes; ' "$report" || cat "$report"
  rm -f "$report"
  return $status
}

# programs FOLDER: the lines of the suite's list, without --full those that the quick list names.
programs() {
  local wanted
  wanted=" all "
  [ -n "$full" ] || wanted=$(awk -v folder="$1" '$1 == folder { $1 = ""; printf "%s ", $0 }' "$here/quick")
  awk -v wanted="$wanted" -v all="$(case $wanted in " all "*) echo 1 ;; esac)" \
    '!/^ *(#|$)/ && !seen[$0]++ && (all ? !index(wanted, " -" $1 " ") : index(wanted, " " $1 " "))' \
    "$(list_of "$1")"
}

# Those that cannot be built have no file.
build_wanted() {
  local folder names
  for folder in $folders; do
    [ "$folder" != torii ] || continue
    [ -d "$suite/$folder" ] || die "the suite has no folder $folder"
    names=$(programs "$folder" | awk '!seen[$1]++ { printf "%s ", $1 }')
    [ -z "$names" ] || echo "$folder $names"
  done >"$suite/wanted"
  quietly "building programs" "$suite/programs.log" build_all
}

build_all() {
  build_programs "$("$mpich/bin/mpicc" -show)" <"$suite/wanted"
  ls "$suite"/util/.libs/*.a
}

# expected PROGRAM: why it is expected to fail
expected() {
  awk -v name="$1" -v nodes="$nodes" '$1 == name || (nodes && $1 == name "@nodes") {
    $1 = ""; sub(/^ /, ""); print; exit }' "$here/expected"
}

# verdict_on STATUS RESULT-TEST OUTPUT: status 0 if the program passed. Most have to say "No Errors",
# once, and nothing else; those with a result test have to end with an error.
verdict_on() {
  local said
  case $2 in
    TestStatus|TestErrFatal) [ "$1" -ne 0 ]; return ;;
    TestStatusNoErrors) [ "$1" -ne 0 ] || return ;;
    '') [ "$1" -eq 0 ] || return ;;
    *) die "the suite's list has an unknown resultTest=$2" ;;
  esac
  said=$(grep -av '^[[:space:]]*Test Passed[[:space:]]*$' "$3")
  [[ $said =~ ^[[:blank:]]*No\ [Ee]rrors[[:blank:]]*$ ]]
}

# run_program FOLDER LINE: what came of it goes into the results
run_program() {
  local words word test='' seconds=$limit arguments=() options=() variables=() verdict=''
  local begin=$SECONDS status output
  read -r -a words <<<"$2"
  for word in "${words[@]:2}"; do
    case $word in
      arg=*) arguments+=("${word#*=}") ;;
      env=*) variables+=("${word#*=}") ;;
      mpiexecarg=*) options+=("${word#*=}") ;;
      timeLimit=*) seconds=${word#*=} ;;
      resultTest=*) test=${word#*=} ;;
      xfail=*) verdict=skip ;;
      mem=*) [ "$(cut -d . -f 1 <<<"${word#*=}")" -lt 20 ] || verdict=skip ;; # GB
    esac
  done
  output=$(mktemp "$suite/output.XXXXXX") || die "$suite cannot be written"
  if [ -n "$verdict" ]; then :
  elif [ ! -x "$suite/$1/${words[0]}" ]; then
    verdict=fail
    echo "it was not built; see $suite/programs.log" >"$output"
  else
    [ -z "$card" ] || where=(over_cards "${words[1]:-2}")
    (cd "$suite/$1" && "${where[@]}" timeout -k 10 $((seconds + 20)) \
      env MPIEXEC_TIMEOUT="$seconds" "${variables[@]}" \
      "$mpich/bin/mpiexec" -n "${words[1]:-2}" "${options[@]}" "./${words[0]}" "${arguments[@]}") \
      >"$output" 2>&1 </dev/null
    status=$?
    if verdict_on $status "$test" "$output"; then verdict=ok
    elif [ $status -eq 124 ] || grep -aq 'APPLICATION TIMED OUT' "$output"; then verdict=timeout
    else verdict=fail
    fi
  fi
  case $verdict in fail|timeout) printf '%s\n' "not ok: $1: $2" "$(<"$output")" >>"$results.failed" ;; esac
  rm -f "$output"
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$verdict" $((SECONDS - begin)) >>"$results"
}

# verdict_of FOLDER LINE: from the results
verdict_of() {
  awk -F '\t' -v folder="$1" -v line="$2" '$1 == folder && $2 == line { print $3; exit }' "$results"
}

# judge FOLDER LINE VERDICT: counts it, and reports what failed
judge() {
  local name np reason
  read -r name np _ <<<"$2"
  name="$1/$name:$np"
  reason=$(expected "$name")
  case $3 in
    skip) ;;
    ok) passed=$((passed + 1)); [ -z "$reason" ] || echo "PASS $name: the list says: $reason" ;;
    *)
      if [ -n "$reason" ]; then
        echo "SKIP $name: $reason"
      else
        failed=$((failed + 1))
        echo "FAIL $name: $3, see $results.failed"
      fi ;;
  esac
}

# run_folder FOLDER: those of its programs that the results do not have, several at a time
run_folder() {
  local lines line running=0 begin=$SECONDS before=$passed
  lines=$(programs "$1")
  [ -n "$lines" ] || return
  while IFS= read -r line; do
    [ -z "$(verdict_of "$1" "$line")" ] || continue
    [ $running -lt "$at_once" ] || { wait -n; running=$((running - 1)); }
    run_program "$1" "$line" &
    running=$((running + 1))
  done <<<"$lines"
  wait
  while IFS= read -r line; do
    judge "$1" "$line" "$(verdict_of "$1" "$line")"
  done <<<"$lines"
  echo "$1: $((passed - before)) passed in $((SECONDS - begin)) s"
}

# Cases of our own.
run_own() {
  local line
  while read -r line; do
    case $line in
      PASS*) passed=$((passed + 1)) ;;
      FAIL*) failed=$((failed + 1)); echo "$line" ;;
      *) echo "$line" ;;
    esac
  done < <("$here/own" "$mpich" "$torii" 2>&1)
}
