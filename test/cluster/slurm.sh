# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Cases of test/cluster/run: programs that Slurm starts, on four nodes that have a Slurm of their own.

# Its files lie in $work/slurm, which all nodes see; sockets and spools in the /tmp of each.
write_slurm_conf() {
  rm -rf "$work/slurm"
  mkdir -p "$work/slurm"
  (umask 077; head -c 1024 /dev/urandom >"$work/slurm/munge.key")
  cat >"$work/slurm/slurm.conf" <<END2
ClusterName=torii
SlurmctldHost=n1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/tmp/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
StateSaveLocation=/tmp/slurmctld
SlurmdSpoolDir=/tmp/slurmd
SlurmctldPidFile=/tmp/slurmctld.pid
SlurmdPidFile=/tmp/slurmd.pid
SlurmctldLogFile=$work/slurm/slurmctld.log
SlurmdLogFile=$work/slurm/slurmd-%h.log
NodeName=n[1-4] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
END2
}

slurm_daemons='
  mkdir -p /tmp/slurmctld /tmp/slurmd
  munged --force --num-threads=1 --key-file="$1/munge.key" --socket=/tmp/munge.socket \
    --pid-file=/tmp/munged.pid --seed-file=/tmp/munge.seed --log-file=/tmp/munged.log || exit
  [ "$(hostname)" != n1 ] || slurmctld || exit
  slurmd'

# start_slurm: prints what has gone wrong
start_slurm() {
  local node try
  for node in n1 n2 n3 n4; do
    cluster run --on $node sh -c "$slurm_daemons" sh "$work/slurm" </dev/null \
      >"$work/slurm/start-$node.log" 2>&1 &
  done
  wait
  for try in $(seq 100); do
    [ "$(cluster run sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" -ne 4 ] || return
    sleep 0.3
  done
  tail -n 5 "$work"/slurm/*.log
}

# slurm_missing: prints why there can be no Slurm here
slurm_missing() {
  local name
  for name in slurmctld slurmd munged srun; do
    command -v $name >/dev/null || { echo "$name is missing (Debian: slurm-wlm, munge)"; return; }
  done
  [ "$(id -u)" -eq 0 ] || echo "Slurm's daemons have to be root"
}

# Open MPI's programs, and a batch script in which a program runs alone.
slurm_openmpi() {
  local torii=(env TORII_REPORT=1 OMPI_MCA_pml=cm OMPI_MCA_mtl=torii
    "OMPI_MCA_mca_base_component_path=SYS_DEFAULT:$components")
  judge "torii-slurm: Open MPI by srun --mpi=pmix" '^ok$' 1 \
    "${torii[@]}" srun --mpi=pmix -N 4 -n 8 "$work/exchange" 0
  output_has "torii-slurm: path inside" 'rank 0 -> rank 1 on n1 .* by shm'
  output_has "torii-slurm: path between" 'rank 0 -> rank [2-7] on n[2-4] .* by udp'
  judge "torii-slurm: Open MPI by salloc mpirun" '^ok$' 1 salloc -N 4 -n 4 "$MPIRUN" \
    -x TORII_REPORT=1 "${transport_options[@]}" "$work/exchange" 0
  output_has "torii-slurm: path under salloc" 'rank 0 -> rank [1-3] on n[2-4] .* by udp'
  printf '#!/bin/sh\n%s\n%s\n' "'$check'" "srun --mpi=pmix '$work/exchange' 0" >"$work/slurm/batch"
  judge "torii-slurm: sbatch" '^Submitted batch job' 1 "${torii[@]}" sbatch -W -N 4 -n 4 -o "$work/slurm/batch.out" \
    "$work/slurm/batch"
  cp "$work/slurm/batch.out" "$work/output"
  output_has "torii-slurm: a program that runs alone in a batch script" '^torii-check: all well$'
  output_has "torii-slurm: a step in a batch script" '^ok$'
}

slurm_mpich() {
  if ! command -v "$MPICC_MPICH" >/dev/null; then
    report SKIP "torii-slurm: MPICH" "$MPICC_MPICH is missing"
    return
  fi
  "$MPICC_MPICH" -O2 -o "$work/where-mpich" "$here/where.c" ||
    { report FAIL "torii-slurm: MPICH" "does not compile"; return; }
  judge "torii-slurm: MPICH by srun --mpi=pmi2" '^rank [01] on n[12]$' 2 \
    srun --mpi=pmi2 -w n1,n2 "$work/where-mpich"
  # On a machine that is loaded Hydra's mpiexec does not always end after the ranks have.
  [ -z "${TORII_TEST_LONG:-}" ] || judge "torii-slurm: MPICH by salloc mpiexec" '^rank [01] on n[12]$' 2 \
    salloc -w n1,n2 "$MPIEXEC" -ppn 1 -n 2 "$work/where-mpich"
}

# Tasks that would all be jobs of one process.
slurm_without_pmi() {
  checked "torii-slurm: srun without a PMI" 1 30 srun --mpi=none -N 2 -n 4 "$check"
  says "torii-slurm: srun without a PMI" \
    'SLURM_STEP_NUM_TASKS=4: this process is one of 4, .* srun --mpi=pmix'
  checked "torii-slurm: a program that runs alone in salloc" 0 30 salloc -N 2 -n 4 "$check"
  checked "torii-slurm: a step of one task" 0 30 srun --mpi=none -n 1 "$check"
}

torii_by_slurm() {
  chosen torii-slurm || return 0
  local -x SLURM_CONF=$work/slurm/slurm.conf
  local pmi launch library bin reason
  reason=$(slurm_missing)
  if [ -n "$reason" ]; then
    report SKIP torii-slurm "$reason"
    return
  fi
  torii_ready torii-slurm exchange || return 0
  portals_ready torii-slurm || return 0
  write_slurm_conf
  cluster up 4 --share "$work" --share "$components" --share "$library" --share "$bin"
  reason=$(start_slurm)
  verdict "torii-slurm: Slurm is up" "$reason"
  if [ -z "$reason" ]; then
    slurm_openmpi
    slurm_mpich
    slurm_without_pmi
    for pmi in pmix pmi2; do
      launch=(srun "--mpi=$pmi" -w)
      without_mpi "torii-slurm: $pmi"
    done
  fi
  cluster down
}
