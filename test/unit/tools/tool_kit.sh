# SPDX-License-Identifier: BSD-3-Clause
# A kit for the tests of tools; sourced after `tool` is set. The output of the last run is in
# $work/out and $work/err; a test ends with exit status $failed.
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0

# run STATUS ARGUMENTS...: runs the tool and checks its exit status.
run() {
  expected=$1
  shift
  "./$tool" "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
  [ $status = "$expected" ] && return
  echo "failed: $tool $*: exit status $status, expected $expected"
  cat "$work/out" "$work/err"
  failed=1
}
# has FILE EXPRESSION: the last run printed that; $extended is -E for extended expressions.
has() {
  if grep -q ${extended:-} -- "$2" "$work/$1"; then echo "ok: $2"; else
    echo "failed: no \"$2\" in:"; cat "$work/$1"; failed=1
  fi
}
