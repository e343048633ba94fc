#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# torii-info: parts, formats, origins of values, and its exit status.
tool=torii-info
. "$(dirname "$0")/tool_kit.sh"
for v in $(env | sed -n 's/^\(TORII_[A-Z_]*\)=.*/\1/p'); do unset "$v"; done
export HOME="$work" && unset XDG_CONFIG_HOME # nor has the user tuned this machine

run 0
for part in build drivers machine parameters; do has out "^$part\$"; done
has out '^  version  *[0-9]'
has out '^  driver  *self  *shm'
has out '^  state  *in use  *in use  *[a-z ]*  between nodes  *available'
has out '^  reliable, in order  *yes'
has out '^  cross-memory attach  *[a-z]'
has out '^  usable cores  *[1-9]'
has out '^  TORII_UNEXPECTED_MEMORY  *64m  *64m  *default  *bound on'
[ -s "$work/err" ] && { echo "failed: unexpected messages"; cat "$work/err"; failed=1; }
[ "$(awk '{ if (length($0) > 100) n++ } END { print n + 0 }' "$work/out")" = 0 ] ||
  { echo "failed: lines of more than 100 characters"; failed=1; }

export TORII_SPIN_US=7
run 0 --params
has out '^  TORII_SPIN_US  *7  *50  *environment'
grep -q '^drivers$' "$work/out" && { echo "failed: --params shows drivers"; failed=1; }
unset TORII_SPIN_US

run 0 --paths
has out '^  driver  *from bytes  *alone  *beside others  *both ways at once  *in pieces  *without credit'
has out '^  shm  *0  *one frame  '
has out '^  udp  *[0-9]*  *eager, lent  '
run 0 --paths --md
has out '^| self | 0 | one frame |'
export TORII_EAGER_LIMIT=3000
run 0 --paths
has out '^  self  *3001  *rendezvous: get  '
unset TORII_EAGER_LIMIT

run 0 --machine
has out '^  progress thread  *none'
export TORII_PROGRESS_THREAD=1
run 0 --machine
has out '^  progress thread  *runs; '
unset TORII_PROGRESS_THREAD

run 0 --counters --md
has out '^| counter | meaning |$'
has out '^| frames_sent | '

run 0 --json
has out '"variable": "TORII_EAGER_LIMIT", "value": "0", "default": "0", "origin": "default"'
if command -v /usr/bin/python3 >/dev/null; then
  /usr/bin/python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert len(d["drivers"]) >= 2 and d["counters"] and d["paths"]' \
    "$work/out" || { echo "failed: not JSON"; failed=1; }
fi

# Without an RDMA device ucx is chosen only where transports are named; then it tells them.
export TORII_UCX_TLS=tcp UCX_NET_DEVICES=lo
run 0 --drivers
grep -q '^  ucx .*Unusable: ' "$work/out" || has out '^  transport and device .* tcp/lo'
unset TORII_UCX_TLS UCX_NET_DEVICES

export TORII_DRIVERS=self,fault:shm
run 0 --drivers
export TORII_DRIVERS=self,carrier_pigeon
run 1 --drivers
has out '^  carrier_pigeon  *Unusable: '
unset TORII_DRIVERS

# Under a limit of 0 on file sizes shared memory cannot open: the reason is shown, and the status
# says so.
(trap '' XFSZ; ulimit -f 0; ./torii-info --drivers; echo "status $?") 2>&1 | cat >"$work/out"
has out '^status 1$'
has out '^  state  *in use  *unusable'
has out '^  shm .*Unusable: '

run 2 --no-such-option
has err '^usage: '
run 2 --md --json
run 0 --help
has out '^usage: '
if [ -c /dev/full ]; then
  ./torii-info >/dev/full 2>"$work/err" && { echo "failed: a full disk goes unnoticed"; failed=1; }
  has err 'cannot write'
fi
exit $failed
