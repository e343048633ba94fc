# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by the scripts that use MPICH's source and the programs of its test suite; they define die.

# As in contrib/common.sh: configure takes half the time with the small shell that Debian has there.
export CONFIG_SHELL=${CONFIG_SHELL:-/bin/sh}

# alone FILE COMMAND...: while no other run does the same, which it notices by FILE
alone() {
  local lock status
  exec {lock}>"$1" || die "$1 cannot be written"
  flock "$lock"
  shift
  "$@"
  status=$?
  exec {lock}>&-
  return $status
}

# fetch_mpich CACHE: sets mpich_tree to the unpacked Debian source package in CACHE, which is fetched
# by name with package lists of our own beside the system's. Exits with 77 if it cannot be had.
fetch_mpich() { alone "$1/fetch.lock" fetch_mpich_alone "$1"; }

fetch_mpich_alone() {
  local cache=$1 lists=$1/lists sources=$1/sources file
  mpich_tree=$(find "$cache" -maxdepth 1 -name 'mpich-[0-9]*' -type d | head -n 1)
  [ -z "$mpich_tree" ] || return 0
  echo "fetching the mpich source package"
  rm -rf "$cache/unpacked"
  mkdir -p "$lists/partial" "$sources" "$cache/unpacked"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    [ -f "$file" ] || continue
    sed -e 's/^Types:.*/Types: deb-src/' -e 's/^deb /deb-src /' "$file" \
      >"$sources/$(basename "$file")"
  done
  local apt=(apt-get -q -o Dir::Etc::sourceparts="$sources" -o Dir::Etc::sourcelist=/dev/null
    -o Dir::State::Lists="$lists")
  (cd "$cache/unpacked" && timeout 300 "${apt[@]}" update && timeout 300 "${apt[@]}" source mpich) \
    >"$cache/fetch.log" 2>&1 || {
    echo "the source package mpich did not come; see $cache/fetch.log"
    exit 77
  }
  mv "$cache"/unpacked/mpich-[0-9]*/ "$cache" # when it is whole
  rm -rf "$cache/unpacked"
  mpich_tree=$(find "$cache" -maxdepth 1 -name 'mpich-[0-9]*' -type d | head -n 1)
}

# list_of FOLDER: the suite's list, in $suite if configure made it
list_of() {
  if [ -f "$suite/$1/testlist" ]; then echo "$suite/$1/testlist"
  else echo "$mpich_tree/test/mpi/$1/testlist"; fi
}

# build_programs COMPILER ARGUMENT...: programs of the suite, in $suite. Standard input has for each
# folder a line: its name, and make's targets. COMPILER is a command of words that compiles and links
# by itself; arguments are make's. A program that cannot be built is missing afterwards.
build_programs() {
  local compiler=$1 link folder targets
  link=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/suite-link
  shift
  { echo 'folders:'
    echo 'shared:; $(MAKE) -C util all && $(MAKE) -C dtpools all'
    while read -r folder targets; do
      printf '%s\n' ".PHONY: $folder" "folders: $folder" "$folder: shared" \
        "	\$(MAKE) -k -C $folder LINK='$link \$\$(CC) \$\$(CFLAGS) \$\$(LDFLAGS) -o \$\$@' $targets"
    done; } >"$suite/programs.mk"
  # Nothing depends on how fast they are.
  make -k -j"$(nproc)" -C "$suite" -f programs.mk CC="$compiler -pipe" CFLAGS=-O0 "$@"
}
