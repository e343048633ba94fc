# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by the scripts that use MPICH's source; they define die.

# fetch_mpich CACHE: sets mpich_tree to the unpacked Debian source package in CACHE, which is fetched
# by name with package lists of our own beside the system's.
fetch_mpich() {
  local cache=$1 lists=$1/lists sources=$1/sources file
  mpich_tree=$(find "$cache" -maxdepth 1 -name 'mpich-[0-9]*' -type d | head -n 1)
  [ -z "$mpich_tree" ] || return 0
  echo "fetching the mpich source package"
  mkdir -p "$lists/partial" "$sources"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    [ -f "$file" ] || continue
    sed -e 's/^Types:.*/Types: deb-src/' -e 's/^deb /deb-src /' "$file" \
      >"$sources/$(basename "$file")"
  done
  local apt=(apt-get -q -o Dir::Etc::sourceparts="$sources" -o Dir::Etc::sourcelist=/dev/null
    -o Dir::State::Lists="$lists")
  (cd "$cache" && timeout 300 "${apt[@]}" update && timeout 300 "${apt[@]}" source mpich) \
    >"$cache/fetch.log" 2>&1 || die "the source package did not come; see $cache/fetch.log"
  mpich_tree=$(find "$cache" -maxdepth 1 -name 'mpich-[0-9]*' -type d | head -n 1)
}
