# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by the scripts of this folder. They run in the folder of the clone (or of the unpacked
# release), build in ./build, install into ./install and write nothing outside of it.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)

# Both of Debian's MPIs may be installed: the names say which one is meant.
MPICC=${MPICC:-mpicc.openmpi}
MPIRUN=${MPIRUN:-mpirun.openmpi}
export MPICC MPIRUN
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1

# configure and libtool take half the time with the small shell that Debian has there.
export CONFIG_SHELL=${CONFIG_SHELL:-/bin/sh}

say() { echo "== $*"; }

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# step "what is done" LOG COMMAND...: runs the command with its output in LOG; while it runs, a
# line every 20 seconds says that it does. Returns the command's status.
step() {
  local what=$1 log=$2 begin=$SECONDS status=0 next=20 pid
  shift 2
  echo "-- $what"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    sleep 0.2
    [ $((SECONDS - begin)) -ge $next ] || continue
    next=$((next + 20))
    echo "   $((SECONDS - begin)) s: $(tail -n 1 "$log" | cut -c 1-90)"
  done
  wait $pid || status=$?
  [ $status -eq 0 ] && echo "   done in $((SECONDS - begin)) s"
  return $status
}

# last_lines LOG: what to show of a step that failed
last_lines() {
  tail -n 25 "$1" | sed 's/^/   | /'
  echo "   all of it: $1"
}

# configured_here BUILD: was the build in this folder configured for it? A copy of a build, as a copied
# tree has it, compiles the sources and installs into the folders of the original.
configured_here() {
  local made_for
  made_for=$(sed -n 's/^abs_top_builddir = //p' "$1/Makefile")
  [ "$made_for" -ef "$1" ]
}

# debian_sources RELEASE: "URI SUITE COMPONENT" of each list of packages that this system has of its
# own release, with another one in its place.
debian_sources() {
  local own
  own=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v own="$own" -v name="$1" \
      '$2 == own || index($2, own "-") == 1 { sub("^" own, name, $2); print }' | sort -u
}

package_version() { sed -n 's/^AC_INIT(\[torii\],\[\([^]]*\)\].*/\1/p' "$top/configure.ac"; }

# copy_sources FOLDER: the tree without what is made in it
copy_sources() {
  mkdir -p "$1" && tar -C "$top" --exclude-vcs --exclude='./build*' --exclude='./install*' \
    --exclude='./results*' --exclude='./mpich*' --exclude=./m4 --exclude=./autom4te.cache \
    --exclude=./aclocal.m4 --exclude='./configure' --exclude='./config.h.in' \
    --exclude='./Makefile.in' --create . | tar -C "$1" --no-same-owner --extract
}
