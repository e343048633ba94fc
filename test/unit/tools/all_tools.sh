#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Common to all tools: --version, --help, and a manual page that is made of them.
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
  echo "failed: $*"
  failed=1
}
version=$(sed -n 's/^#define PACKAGE_VERSION "\(.*\)"/\1/p' config.h)
count=0
for tool in ./torii-* src/core/tools/torii-env; do
  [ -f "$tool" ] && [ -x "$tool" ] || continue
  count=$((count + 1)) name=${tool##*/}
  "$tool" --version >"$work/out" 2>"$work/err" </dev/null || fail "$name --version: status $?"
  [ "$(cat "$work/out")" = "$name $version" ] || fail "$name --version: $(cat "$work/out")"
  "$tool" --help >"$work/out" 2>>"$work/err" </dev/null || fail "$name --help: status $?"
  [ "$(sed -n '1s/^usage: .*/usage/p' "$work/out")" = usage ] || fail "$name --help: no usage"
  grep -qe '--version' "$work/out" || fail "$name --help does not name --version"
  # The page names what --help does, and groff has nothing to say about it.
  [ -s "$name.1" ] || { fail "$name has no manual page"; continue; }
  sed 's/\\-/-/g' "$name.1" >"$work/page"
  ! command -v groff >/dev/null || groff -man -ww -z -Tutf8 "$name.1" 2>>"$work/err"
  grep -q "^\.TH .*\"$name $version\"" "$work/page" || fail "$name.1 is of another version"
  for section in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' 'SEE ALSO'; do
    grep -q "^\.SH \"*$section\"*\$" "$work/page" || fail "$name.1 has no $section"
  done
  for option in $(grep -oe ' --[a-z][a-z-]*' "$work/out" | sort -u); do
    grep -qe "$option" "$work/page" || fail "$name.1 does not name $option"
  done
  [ -s "$work/err" ] && fail "$name: unexpected messages: $(cat "$work/err")"
done
[ $count -ge 6 ] || fail "only $count tools were found"
exit $failed
