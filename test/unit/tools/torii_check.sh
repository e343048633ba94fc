#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# torii-check on this machine: options, alone, by hand over a remote shell that is none, and what it
# says of one that fails. Networks are in test/cluster.
tool=torii-check
extended=-E
. "$(dirname "$0")/tool_kit.sh"
for v in $(env | sed -n 's/^\(\(TORII\|PMIX\|PMI\)_[A-Z_]*\)=.*/\1/p'); do unset "$v"; done
export TORII_TUNE_FILE=

run 0 --help
has out '^usage: mpirun'
has out '^Exit status: 0; 1 for a failure; 2 for a wrong option'
run 0 --version
has out '^torii-check [0-9]'
run 2 --no-such-option
has err 'unknown option --no-such-option'
run 2 --hosts
has err '--hosts needs a value'
run 2 --hosts 'n1;reboot'
has err "'n1;reboot' is no name of a host"
run 2 --hosts n1 --deadline 0
has err '--deadline 0: from 1 to 3600'
run 2 --hosts n1 --multicast 1e9
has err '--multicast 1e9: from 1 to 3600'
run 2 --hosts n1 --launch ' '
run 1 --part
has err '--part is for processes that torii-check starts itself'

run 0 # alone
has out '^nodes$'
has out '^torii-check: (all well|a job would run)'

cat >"$work/shell" <<'END'
#!/bin/sh
# A remote shell that stays here, and greets.
echo "Welcome to $1"
case $1 in
  broken) echo "broken: no route to host" >&2; exit 255 ;;
  chatty) yes chatty | head -c 200000; exec sleep 60 ;;
esac
shift
exec sh -c "$*"
END
chmod +x "$work/shell"
here=$(hostname)
run 0 --hosts "$here:3" --launch "$work/shell" --verbose
has out '^3 pairs inside nodes: by shm, round trip [0-9.]+'
has out "^  rank 0 on $here +rank 2 on $here +shm .* 0.00 %"
run 1 --hosts "$here,broken" --launch "$work/shell"
has out '^FAILURE: torii-check on broken: ended, exit status 255: broken: no route to host$'
has out '^torii-check: a job would fail: 1 failure'
run 1 --hosts "$here,chatty" --launch "$work/shell"
has out '^FAILURE: torii-check on chatty: what answers there is not this version of torii-check$'
run 1 --hosts "$here" --launch "$work/no-such-shell"
has out '^FAILURE: torii-check on .*: ended, exit status 127: .*no-such-shell: No such file'
run 1 --hosts "$here" --launch "$work/shell" --program /no/such/torii-check
has out '^FAILURE: torii-check on .*: ended, exit status 127: '

# By Torii's own start-up.
TORII_JOB=check-$$ TORII_SIZE=2 TORII_RANK=1 ./torii-check >"$work/second" 2>&1 &
TORII_JOB=check-$$ TORII_SIZE=2 TORII_RANK=0 run 0
has out '^1 pair inside nodes: by shm'
wait $! || { echo "failed: the second process"; cat "$work/second"; failed=1; }
[ -s "$work/second" ] && { echo "failed: the second process speaks"; cat "$work/second"; failed=1; }
exit $failed
