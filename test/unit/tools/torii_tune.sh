#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# torii-tune: what it measures is written, read by the library and shown by torii-info; values that
# are far off are replaced by better ones; wrong options and places are refused at once.
set -u
for v in $(env | sed -n "s/^\(TORII_[A-Z_]*\)=.*/\1/p") PMIX_NAMESPACE PMI_FD PMI_PORT; do unset "$v"; done
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
export HOME="$work/home" && unset XDG_CONFIG_HOME
file=$HOME/.config/torii/tune.conf
failed=0
fail() {
  echo "FAIL: $*"
  failed=1
}
# value NAME: in a file of torii-tune
value() { sed -n "s/^$1 = //p" "$2"; }

# wrong STATUS TEXT ARGUMENTS...
wrong() {
  expected=$1 text=$2
  shift 2
  out=$(timeout 20 ./torii-tune "$@" 2>&1)
  status=$?
  [ $status = "$expected" ] || fail "$*: exit status $status"
  case $out in "torii-tune: $text"*) ;; *) fail "$*: $out" ;; esac
}
wrong 2 "unknown option --fast" --fast
wrong 2 "--output needs a file" --output
wrong 2 "--system and --output exclude each other" --system --output x
wrong 1 "/dev/null/f cannot be written: Not a directory" --output /dev/null/f
TORII_RANK=0 wrong 1 "it starts its processes itself"
timeout 20 ./torii-tune --help | grep -q '^usage: torii-tune' || fail "--help"
timeout 20 ./torii-tune --version | grep -q '^torii-tune [0-9]' || fail "--version"
[ ! -e "$file" ] || fail "a refused run wrote $file"

# In the default place; all values are there and are in force afterwards, unless set otherwise.
out=$(timeout 120 ./torii-tune --quick 2>&1)
status=$?
case $out in
  *"may use only"*) # one processor, or a quota
    [ $failed = 0 ] || exit 1
    echo "$out"
    exit 77 ;;
esac
[ $status = 0 ] || fail "--quick: $out"
echo "$out" | grep -q "^written: $file\$" || fail "the file is not named: $out"
echo "$out" | grep -q 'set TORII_TUNE_FILE' && fail "its own place is not read: $out"
[ "$(ls "$HOME/.config/torii")" = tune.conf ] || fail "left behind: $(ls "$HOME/.config/torii")"
for name in shm_eager_limit shm_remote_min shm_split_min shm_ring_most; do
  value=$(value $name "$file")
  [ -n "$value" ] || fail "$name is not in $(cat "$file")"
  variable=TORII_$(echo $name | tr a-z A-Z)
  ./torii-info --params --md >"$work/info" 2>&1
  grep -q "^| $variable | $value | 0 | tune file $file |" "$work/info" ||
    fail "torii-info does not show $variable=$value of $file: $(grep "$variable" "$work/info")"
done
TORII_SHM_RING_MOST=32k ./torii-info --params --md |
  grep -q '^| TORII_SHM_RING_MOST | 32k | 0 | environment |' || fail "the environment does not win"
TORII_TUNE_FILE='' ./torii-info --params --md |
  grep -q '^| TORII_SHM_RING_MOST | 0 | 0 | default |' || fail "an empty name does not disable"

# Values that no machine likes are noticed, and the gain is shown. A case that hangs on times is
# tried up to three times, and is not judged if the tool itself finds its times of no use.
machine=$(sed -n 's/^\[\(.*\)\]$/\1/p' "$file")
cat >"$work/bad.conf" <<END
torii-tune 1
[Some Other Machine]
shm_eager_limit = 7k
[$machine]
shm_eager_limit = 2k
shm_remote_min = 1g
shm_ring_most = 32k
END
cp "$work/bad.conf" "$work/bad.copy"
# found_bad: says what is missing in $out
found_bad() {
  echo "$out" | grep -q '^  4k .*+[0-9]* %' || { echo "no gain at 4k"; return; }
  echo "$out" | grep -q 'the values in force are as good' && echo "the bad values stay"
}
for try in 1 2 3; do
  out=$(TORII_TUNE_FILE=$work/bad.conf timeout 120 ./torii-tune --quick --dry-run --details 2>&1) ||
    fail "--dry-run: $out"
  missing=$(found_bad)
  [ -n "$missing" ] || break
  echo "try $try: $missing"
done
if [ -n "$missing" ]; then
  case $out in
    *"; most were disturbed"*) echo "not judged, the machine was disturbed: $missing" ;;
    *) fail "$missing: $out" ;;
  esac
fi
cmp "$work/bad.conf" "$work/bad.copy" || fail "--dry-run wrote $(cat "$work/bad.conf")"
for what in 'before, after, gain' 'nothing was written' \
  "times, relative to ring's" "shm_eager_limit *2k *tune file $work/bad.conf *[1-9]"; do
  echo "$out" | grep -q "$what" || fail "no '$what' in: $out"
done
echo "$out" | grep -q 'shm_eager_limit .* 2k$' && fail "2k was found good: $out"

# A broken file is a warning, and the library works; torii-tune replaces it.
printf 'torii-tune 1\n[%s]\nshm_ring_most = much\n' "$machine" >"$file"
out=$(timeout 60 ./torii-perf --test latency --max 8 --iterations 3 --repetitions 1 2>&1) ||
  fail "torii-perf with a broken file: $out"
case $out in
  *"$file:3: shm_ring_most = much: expected bytes"*"; built-in values are used; run torii-tune"*) ;;
  *) fail "no warning about a broken file: $out" ;;
esac
[ "$(echo "$out" | grep -c 'built-in values')" = 1 ] || fail "not one warning: $out"
exit $failed
