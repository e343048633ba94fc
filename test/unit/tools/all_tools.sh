#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What all tools have in common: --version and --help.
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
  [ -s "$work/err" ] && fail "$name: unexpected messages: $(cat "$work/err")"
done
[ $count -ge 6 ] || fail "only $count tools were found"
exit $failed
