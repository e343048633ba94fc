#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# contrib/compare looks at its options before it builds. contrib/setup in a copied tree builds and
# installs there. Both in trees whose build is a Makefile that installs one file.
top=$(cd "${srcdir:-.}" && pwd)
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MAKELEVEL MFLAGS CONFIG_SHELL
failed=0

# equal WHAT EXPECTED GOT
equal() {
  if [ "$2" = "$3" ]; then echo "ok: $1"; else
    echo "failed: $1: expected $2, got $3"; cat "$work/out"; failed=1
  fi
}

# script FILE: makes one of standard input
script() { { echo '#!/bin/sh'; cat; } >"$1" && chmod +x "$1"; }

# --- contrib/compare ---

tree=$work/compared
mkdir -p "$tree/contrib" "$tree/test/bench"
cp "$top/contrib/compare" "$top/contrib/common.sh" "$tree/contrib"
cp -r "$top/test/bench/compare" "$tree/test/bench/compare"
chmod -R u+w "$tree" # a release is read-only while distcheck tests it
echo "touch '$tree/built'; exit 1" | script "$tree/contrib/setup"

# compare STATUS BUILT OPTIONS...: it ends with that status, and has built or not
compare() {
  status=$1 built=$2
  shift 2
  rm -f "$tree/built"
  "$tree/contrib/compare" "$@" >"$work/out" 2>&1
  equal "contrib/compare $*: exit status" "$status" $?
  equal "contrib/compare $*: builds" "$built" "$([ -e "$tree/built" ] && echo yes || echo no)"
}
if command -v python3 >/dev/null; then
  compare 2 no --bogus
  compare 2 no --rounds many
  compare 1 no --only no-such-figure
  compare 0 no --list
  compare 1 yes --only pingpong # setup fails, and nothing is compared
else
  echo "no python3: contrib/compare is not tested"
fi

# --- contrib/setup ---

tree=$work/original
mkdir -p "$tree/contrib" "$work/bin"
cp "$top/contrib/setup" "$top/contrib/common.sh" "$tree/contrib"
chmod -R u+w "$tree"
script "$tree/contrib/join" </dev/null
script "$tree/configure" <<'END'
for option; do case $option in --prefix=*) prefix=${option#*=} ;; esac; done
cat >Makefile <<MAKEFILE
abs_top_builddir = $(pwd)
all: ; [ -e object ] || pwd >object
install: ; mkdir -p $prefix && cp object $prefix/installed
MAKEFILE
echo 'Open MPI components yes'
END
echo 'echo installed' | script "$work/bin/dpkg-query" # every package is
PATH=$work/bin:$PATH

# setup TREE: what it installs there says where it was built
setup() {
  "$1/contrib/setup" >"$work/out" 2>&1
  equal "contrib/setup in ${1##*/}: exit status" 0 $?
  equal "contrib/setup in ${1##*/}: installs what is built there" "$1/build" \
    "$(cat "$1/install/installed" 2>&1)"
}
setup "$tree"
cp -r "$tree" "$work/copy"
rm "$tree/install/installed"
setup "$work/copy"
equal "the original is left alone" "" "$(ls "$tree/install")"
touch "$work/copy/build/kept"
setup "$work/copy"
equal "a build of this tree is kept" kept "$(ls "$work/copy/build" | grep kept)"
mv "$work/copy" "$work/moved"
setup "$work/moved"
exit $failed
