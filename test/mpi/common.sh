# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by the scripts of this folder: finds Open MPI and the component, and what runs leave.

MPICC=${MPICC:-mpicc.openmpi}
MPIRUN=${MPIRUN:-mpirun.openmpi}
osc=
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1

die() {
  echo "${0##*/}: $*" >&2
  exit 2
}

# need COMMAND PACKAGE
need() { command -v "$1" >/dev/null || die "$1 is missing; apt-get install $2"; }

# Sets $components when empty.
find_components() {
  local dir
  [ -n "$components" ] || for dir in "$PWD/.libs" "$here/../../.libs" \
    "$(pkg-config --variable=libdir torii 2>/dev/null)/openmpi"; do
    [ -f "$dir/mca_mtl_torii.so" ] && components=$dir && break
  done
  [ -f "$components/mca_mtl_torii.so" ] ||
    die "mca_mtl_torii.so not found; build Torii and say --components FOLDER"
  components=$(cd "$components" && pwd)
}

# tool NAME: prints where a tool of the build or of the installation under test is.
tool() {
  local dir
  for dir in "$components/.." "$components/../../bin"; do
    [ -x "$dir/$1" ] && (cd "$dir" && echo "$PWD/$1") && return
  done
  return 1
}

# with_components: prints the words by which ranks find the components; they come last before the
# program. The launcher of Open MPI 5 gives ranks a component path of its own: env puts ours in its place.
with_components() {
  if [ "$openmpi_major" -lt 5 ]; then
    printf '%s\n' --mca mca_base_component_path "SYS_DEFAULT:$components"
  else
    printf '%s\n' env "OMPI_MCA_mca_base_component_path=SYS_DEFAULT:$components"
  fi
}

# options_for TRANSPORT: prints the words that go to mpirun before the program, one in a line.
# $osc, if not empty, names the components for one-sided communication over btl and ob1.
options_for() {
  case $1 in
    torii)
      printf '%s\n' --mca pml cm --mca mtl torii ${osc:+--mca osc "$osc"}
      with_components
      ;;
    btl)
      printf '%s\n' --mca pml ob1 --mca btl torii,self --mca osc "${osc:-rdma,sm}"
      with_components
      ;;
    ob1) printf '%s\n' --mca pml ob1 ${osc:+--mca osc "$osc"} ;;
    *) die "unknown transport $1; torii, btl or ob1" ;;
  esac
}

# Differences between Open MPI's releases: how the launcher is told to let the others live when one
# process dies, and ob1 to do without cross-memory attach; where internal headers find all others.
name_options() {
  if [ "$openmpi_major" -lt 5 ]; then
    internals=()
    recovery=(--mca orte_enable_recovery 1)
    no_attach=(--mca btl_vader_single_copy_mechanism none)
  else
    internals=(-isystem "$here/../../src/mtl/openmpi5" $(pkg-config --cflags pmix 2>/dev/null))
    recovery=(--enable-recovery)
    no_attach=(--mca smsc ^cma)
  fi
}

find_openmpi() {
  need "$MPICC" libopenmpi-dev
  need "$MPIRUN" openmpi-bin
  openmpi_major=$("$MPICC" --showme:version | sed -n 's/.*Open MPI \([0-9]*\)\..*/\1/p')
  [ "$transport" = ob1 ] || find_components
  name_options
  mapfile -t transport_options < <(options_for "$transport")
}

# A path between two virtual nodes (test/cluster) in TORII_REPORT's words.
by_ucx='torii report: rank [0-9]+ -> rank [0-9]+ on n[0-9]+ .* by ucx \('

# The leftovers of a run: shared memory and session folders.
leftovers() { ls -d /dev/shm/* /tmp/ompi.*/pid.* 2>/dev/null | sort; }

# Does a living process use it? Other jobs may run on the machine.
in_use() {
  case $1 in
    */pid.*) [ -d "/proc/${1##*/pid.}" ] ;;
    *) grep -qsF "$1" /proc/[0-9]*/maps ;;
  esac
}

# new_leftovers BEFORE: what is there now, was not before and is no one's; mpirun gets a moment
# to clean up.
new_leftovers() {
  local try left name
  for try in 1 2 3 4 5; do
    left=
    for name in $(comm -13 <(echo "$1") <(leftovers)); do
      in_use "$name" || left="$left $name"
    done
    [ -z "$left" ] && return
    sleep 0.3
  done
  echo "$left"
}

free_mebibytes() { awk '/MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; }

# known_cases PROGRAM LIST NAME...: ends with 2 if a name is not in the list
known_cases() {
  local program=$1 list=$2 name
  shift 2
  for name in "$@"; do
    grep -qxF -e "$name" <<<"$list" || { echo "$program: unknown case $name; see --list" >&2; exit 2; }
  done
}
