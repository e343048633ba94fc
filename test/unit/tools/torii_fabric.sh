#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# torii-fabric: options, what the command sees, its status and signals; processes over each card.
tool=torii-fabric
. "$(dirname "$0")/tool_kit.sh"
for v in $(env | sed -n 's/^\(TORII_[A-Z_]*\)=.*/\1/p'); do unset "$v"; done

run 0 --help
for word in '^usage: torii-fabric ' '--topology' 'skeleton, 1 process a card' 'link.rate'; do
  has out "$word"
done
[ "$(awk '{ if (length($0) > 120) n++ } END { print n + 0 }' "$work/out")" = 0 ] ||
  { echo "failed: lines of more than 100 characters"; failed=1; }

run 2
has err 'no command'
run 2 --cart tnet -- true
has err 'option --cart is unknown'
run 2 --nodes
has err 'needs a value'
for nodes in 0 4x 70000; do
  run 2 --nodes $nodes -- true
  has err "--nodes $nodes: expected a number from 1 to "
done
run 2 --card none -- true
has err "no card 'none'; use one of skeleton"
run 2 --topology torus -- true
has err 'torus'
run 2 --set link.speed=3 -- true
has err "no parameter 'link.speed'; use one of link.rate"
run 2 --set link.rate -- true
has err 'expected NAME=VALUE'
run 2 --faults bre=1 -- true
has err 'bre=1'
run 2 --trace /nowhere/trace -- true
has err 'cannot write /nowhere/trace'
export TORII_DRIVERS=self,udp
run 2 -- true
unset TORII_DRIVERS
has err 'TORII_DRIVERS=self,udp does not name skeleton'
run 127 -- no-such-command
has err 'no-such-command cannot be started'

run 0 --card tnet --nodes 3 -- sh -c 'echo "$TORII_DRIVERS $TORII_WAIT $TORII_FABRIC"'
has out '^self,shm,tnet sleep torii-fabric-[0-9]*-[0-9a-f]*,3$'
has err '^torii-fabric: tnet, 3 nodes, star; 0 processes'
has err 'no process has opened a card'
run 2 -- ./torii-fabric -- true
has err 'of another torii-fabric'
run 7 -- sh -c 'exit 7'
run 137 -- sh -c 'kill -KILL $$'

# Also where the caller ignores the ends of its children.
timeout -k 1 20 env --ignore-signal=CHLD ./torii-fabric -- sh -c 'exit 7' >"$work/out" 2>&1
status=$?
[ $status = 7 ] || { echo "failed: status $status with SIGCHLD ignored"; failed=1; }

# A signal goes to the command, whose end is that of torii-fabric.
./torii-fabric -- sh -c 'trap "echo told; exit 3" TERM; echo ready; while :; do sleep 0.1; done' \
  >"$work/out" 2>"$work/err" </dev/null &
fabric=$!
for i in 1 2 3 4 5 6 7 8 9 10; do grep -q ready "$work/out" && break; sleep 0.2; done
kill -TERM $fabric
wait $fabric
[ $? = 3 ] && grep -q told "$work/out" || { echo "failed: the signal was not passed on"; failed=1; }

# Two processes on two nodes; the second one of a node would go by shared memory. Each card on the
# network that it had, with the faults of that.
while read -r card nodes topology faults; do
  run 0 --card $card --nodes $nodes --topology $topology --faults $faults,seed=3 -- \
    ./torii-perf --iterations 3 --repetitions 2 --max 16k --test latency
  has out "path: rank 1 on .* by $card"
  has err "^torii-fabric: $card, $nodes nodes, $topology; 2 processes"
  has err '^node1: [1-9][0-9]* '
  has err '^cable0a: .* resends'
done <<END
skeleton 2 star ber=1e-6
tnet 2 star ber=1e-6
qsnet 2 fattree ber=1e-6,drop=1e-3
nectar 2 pair:2 ber=1e-6,drop=1e-3
sci 2 ring:2 ber=1e-6,drop=1e-3
END
run 0 --card tnet -- ./torii-info --drivers
has out '^  driver .*skeleton *myrinet *tnet *qsnet *nectar *sci'

# The same drivers pass the conformance kit in several processes.
if [ -x test/conformance/torii-conformance ]; then
  for card in skeleton myrinet tnet qsnet nectar sci; do
    run 0 --card $card --nodes 8 -- test/conformance/torii-conformance --driver fault:$card
    has out 'PASSED'
  done
fi
exit $failed
