# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by contrib/check: the parts, each a function part_NAME, and the builds that they use, each
# a function build_NAME whose output is its log and whose status is 0, 77 if it cannot be had here.

parts_table="\
install     200  packages; builds with g++ -Werror; installs
tree         15  includes, lengths of files and functions, licence lines, format
dist         10  a release holds every file
library      30  what a program meets: headers, symbols, pkg-config, examples; install and uninstall
unit        150  in-process tests that find more at full speed, tools and start-up
clang       300  builds everything with clang++ -Werror and the sanitizers
asan        150  all in-process tests with address and undefined-behaviour sanitizer
tsan        120  those with threads, with the thread sanitizer
fuzz         45  five seconds for each parser of what comes from outside
readme       10  the README's commands
compare      20  contrib/compare in short
mpi         250  Open MPI: messages, windows, errors, deaths
cluster     250  virtual nodes: udp, launchers, paths, failures, intruders
rdma        240  a guest with soft RoCE: the driver ucx over real verbs
faces        20  Open MPI's components compile against 5.0's headers
programs     70  LAMMPS, HPCC, NetPIPE and mpi4py: results as over Open MPI's own transports
mpich       600  MPICH with the netmod: its own programs, and ours"

long_table="\
suite      MPICH's programs over Open MPI: mpich runs them over the netmod, mpi tests Open MPI
distcheck  make distcheck builds all once more
valgrind   the sanitizers find the same kinds of defect, many times as fast
trixie     all of it once more, in Debian 13 with Open MPI 5.0
debian     packages for Debian 12 and 13 build all twice, and are installed in systems of their own
rpm        the same for RPM packages, by Debian's rpmbuild
aarch64    cross-compiled, and run by qemu-user
vcis       one more MPICH, for one switch of its own
defects    builds a copy with each of thirteen defects, to show that the parts find them"

longer_table="\
unit       the other in-process tests without sanitizers, too
asan       as many seeds of the simulations as without sanitizers, and the figures of the cards
tsan       also the tests of the conformance kit itself
fuzz       a minute for each target
compare    every figure of contrib/compare
cluster    a million datagrams of the intruder; mpiexec of MPICH under salloc, which waits for Slurm; tests of
           MPI, LAMMPS, HPCC and MPICH's programs over ucx on four nodes
rdma       all cases of the kit, more programs of MPI, killed and stopped peers, two guests whose link goes down
mpi        also with 7 ranks, under valgrind, and messages of 5 GiB, which need 13 GiB of memory
programs   also with 7 ranks
mpich      all programs of MPICH's lists"

# Builds, in this order, and those that go on beside them; the parts that use each.
builds="unit clang tsan"
slow_builds="suite mpich vcis"
declare -A users_of=([unit]="unit rdma valgrind" [clang]="clang asan fuzz" [tsan]=tsan [suite]=suite
  [mpich]=mpich [vcis]=vcis)
declare -A build_title=(
  [unit]="the tests build with g++ -Werror"
  [clang]="everything builds with clang++ -Werror and sanitizers"
  [tsan]="the tests with threads build with the thread sanitizer"
  [suite]="MPICH's programs build with Open MPI"
  [mpich]="MPICH builds with the netmod"
  [vcis]="MPICH builds with the netmod and several virtual interfaces")

# configured FOLDER OPTIONS...: an out-of-tree build in build-check/FOLDER. GNU ld takes seconds for each
# sanitized program, lld a fraction of one.
configured() {
  local folder=$work/$1 linker=
  shift
  ! command -v ld.lld >/dev/null || linker=-fuse-ld=lld
  [ ! -f "$folder/Makefile" ] || configured_here "$folder" || rm -r "$folder"
  mkdir -p "$folder"
  [ -f "$folder/Makefile" ] ||
    (cd "$folder" && "$top/configure" --prefix="$work/prefix" LDFLAGS="$linker" "$@") || return 1
  contrib/join "$folder"
}

# --- the library ----------------------------------------------------------------------------------

part_install() {
  if "$top/contrib/setup" --tests --werror; then
    report PASS "install: builds with g++ -Werror, installs"
  else
    report FAIL "install: builds with g++ -Werror, installs" "nothing else can be tested"
    return 1
  fi
}

part_tree() { suite tree 300 "$top/contrib/check-tree"; }

# A release holds all that git tracks, but for what only git needs.
part_dist() {
  if [ ! -e .git ]; then
    report SKIP "dist: release is complete" "this is no git clone"
    return
  fi
  local folder missing
  if ! step "make distdir" "$work/dist.log" make -C "$top/build" distdir; then
    last_lines "$work/dist.log"
    report FAIL "dist: release is complete" "make distdir"
    return
  fi
  folder=$(echo "$top"/build/torii-[0-9]*/)
  missing=$(git -c safe.directory="$top" ls-files | grep -v '^\.gitignore$' |
    while read -r name; do [ -e "$folder/$name" ] || echo "$name"; done)
  chmod -R u+w "$folder" && rm -rf "$folder"
  [ -z "$missing" ] && report PASS "dist: release is complete" && return
  report FAIL "dist: release is complete" "not in it: $(echo $missing)"
}

# The library as a program meets it: headers that stand alone in C and C++, the library by
# pkg-config, and no symbol but those of the two interfaces.
part_library() {
  local header name
  name=$(nm -D --defined-only install/lib/libtorii.so | awk '{ print $3 }' |
    grep -vE '^(torii_|Ptl|ptl_|TORII_|PTL_)')
  if [ -z "$name" ]; then
    report PASS "library: exports its interfaces only"
  else
    report FAIL "library: exports its interfaces only" "also $(echo $name)"
  fi
  export PKG_CONFIG_PATH=$top/install/lib/pkgconfig
  for header in torii portals3 p3nal_utcp p3rt/p3rt p3api/debug portals/portals3 portals/p3nal_utcp \
    portals/p3api/debug; do
    name=$work/alone-${header//\//-}
    printf '#include <%s.h>\nint main(void) { return 0; }\n' $header >"$name.c"
    cp "$name.c" "$name.cc"
    meets "$header.h by pkg-config" "$name.c" "$name.cc"
  done
  meets "programs for other Portals" test/unit/portals/portals_clients_test.c \
    test/unit/portals/portals_clients_cxx_test.cc
  suite examples 180 test/examples/run
  installs
}

# Installed files are in their places, and make uninstall leaves nothing of it.
installs() {
  local root=$work/root name missing= left
  rm -rf "$root"
  done_or_fail "library: make install" "make install" "$work/library.log" \
    make -C build install DESTDIR="$root" || return
  for name in bin/torii-{check,env,fabric,info,perf,tune} lib/libtorii.so lib/pkgconfig/torii.pc \
    include/{torii.h,portals3.h,portals/p3api/debug.h} lib/openmpi/mca_mtl_torii.so \
    share/man/man1/torii-{check,env,fabric,info,perf,tune}.1 \
    share/doc/torii/{LICENSE,README.md,examples/{Makefile,torii_pair.c}}; do
    [ -s "$root$top/install/$name" ] || missing="$missing $name"
  done
  if [ -z "$missing" ]; then
    report PASS "library: everything is installed"
  else
    report FAIL "library: everything is installed" "missing:$missing"
  fi
  done_or_fail "library: make uninstall" "make uninstall" "$work/library.log" \
    make -C build uninstall DESTDIR="$root" || return
  left=$(find "$root" ! -type d; cd "$root$top/install" && find ./*/* -type d ! -path ./lib/pkgconfig \
    ! -path ./share/man ! -path ./share/man/man1 ! -path ./share/doc)
  if [ -z "$left" ]; then
    report PASS "library: make uninstall leaves nothing"
  else
    report FAIL "library: make uninstall leaves nothing" "left: $(echo $left)"
  fi
}

# meets WHAT C_FILE CXX_FILE: they compile and link by pkg-config, and run
meets() {
  done_or_fail "library: $1" "$1 in C and C++" "$work/library.log" bash -c "
    flags=\$(pkg-config --cflags torii) libs=\$(pkg-config --libs torii)
    set -e
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror \$flags -o $work/meets-c $2 \$libs
    g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror \$flags -o $work/meets-cc $3 \$libs
    LD_LIBRARY_PATH=$top/install/lib $work/meets-c
    LD_LIBRARY_PATH=$top/install/lib $work/meets-cc"
}

# --- in-process tests ------------------------------------------------------------------------------

# The build of contrib/setup, with tests beside it.
build_unit() {
  local wanted="check TESTS="
  [ -n "$long" ] || wanted="all $(make -s -C build print-plain_programs print-helper_programs)"
  make -C build -j"$jobs" $wanted
}

part_unit() {
  built unit && suite unit 1200 test/run --build build $([ -n "$long" ] && echo programs || echo plain) scripts
}

# One build for three parts: its warnings are errors, and the fuzzers need the sanitizers too. With -O1
# the library compiles in twice the time, and the tests run in less than half.
build_clang() {
  configured clang CC=clang CXX=clang++ OPTIMIZE="-g1 -O1" --enable-werror --enable-fuzzers \
    --with-sanitizer=address,undefined &&
    make -k -C "$work/clang" -j"$jobs" check TESTS=
}

part_clang() { :; }

# The figures of emulated cards take minutes with a sanitizer, and their models are tested by nic_tests.
part_asan() {
  local programs
  built clang || return
  programs=$(make -s -C "$work/clang" print-test_programs) || return
  [ -n "$long" ] || programs=${programs/test\/nic\/figures/}
  suite asan 1800 test/run --build "$work/clang" $programs
}

part_fuzz() {
  local seconds=5
  [ -z "$long" ] || seconds=60
  built clang && suite fuzz 1200 test/fuzz/run --build "$work/clang" --keep "$work/fuzz-found" $seconds
}

# threads_of BUILD: the programs that have threads
threads_of() { make -s -C "$1" print-threaded_programs ${long:+print-long_threaded_programs}; }

build_tsan() {
  configured tsan OPTIMIZE="-g1 -O1" TEST_OPTIMIZE="-g1 -O1" --with-sanitizer=thread \
    --without-openmpi &&
    make -C "$work/tsan" -j"$jobs" $(threads_of "$work/tsan")
}

part_tsan() { built tsan && suite tsan 1800 test/run --build "$work/tsan" $(threads_of "$work/tsan"); }

part_valgrind() {
  local name
  built unit || return
  for name in $(make -s -C build print-test_programs); do
    done_or_fail "valgrind: $name" "valgrind $name" "$work/valgrind.log" timeout 1200 \
      build/libtool --mode=execute valgrind -q --error-exitcode=9 --leak-check=full "build/$name"
  done
}

# --- what users do --------------------------------------------------------------------------------

# The README's commands for one's own programs, as they stand there: its blocks marked sh.
part_readme() {
  local script=$work/readme.sh
  { echo 'set -eu'
    awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' README.md; } >"$script"
  if [ "$(wc -l <"$script")" -lt 4 ]; then
    report FAIL "readme: its commands" "README.md has no block marked sh"
    return
  fi
  done_or_fail "readme: its commands" "the README's commands" "$work/readme.log" \
    timeout 300 bash "$script" || return
  if grep -q '^torii report: rank 0 -> rank 1 ' "$work/readme.log"; then
    report PASS "readme: its program runs over Torii"
  else
    report FAIL "readme: its program runs over Torii" "no report in $work/readme.log"
  fi
}

# The comparison in short, with --long all of its figures; they mean nothing, its files must be
# there.
part_compare() {
  local folder=$work/results name figures=pingpong,lammps files
  files="pingpong.csv pingpong-rounds.csv lammps.csv compare.svg compare.png"
  [ -z "$long" ] || figures=$(/usr/bin/python3 -B test/bench/compare --list | paste -s -d ,)
  rm -rf "$folder"
  if ! step "contrib/compare, in short" "$work/compare.log" timeout 600 "$top/contrib/compare" \
    --only "$figures" --rounds 1 --lammps-rounds 1 --ms 1 --max 65536 --results "$folder"; then
    last_lines "$work/compare.log"
    report FAIL "compare: runs"
    return
  fi
  for name in $files ${figures//,/.csv }.csv; do
    [ -s "$folder/$name" ] && continue
    report FAIL "compare: runs" "$name is missing or empty"
    return
  done
  report PASS "compare: runs"
}

# --- programs of MPI ------------------------------------------------------------------------------

components=$top/install/lib/openmpi

part_faces() { suite faces 600 test/mpi/compile-5.0 "$work/openmpi-5.0"; }

part_mpi() { suite mpi 1800 test/mpi/run --components "$components" $long; }

part_programs() {
  suite programs 1800 test/mpi/programs --components "$components" $long
  suite "programs over btl" 900 test/mpi/programs --components "$components" --over btl \
    --np 2 lammps-melt hpcc netpipe mpi4py
}

part_cluster() {
  make -s -C build test/cluster/group_frames >"$work/group_frames.log" 2>&1 ||
    report FAIL "cluster: test/cluster/group_frames builds" "$(tail -n 1 "$work/group_frames.log")"
  suite cluster $([ -n "$long" ] && echo 3600 || echo 1200) test/cluster/run --components "$components" \
    --suite "$work/suite"
}

# Guests on processors that QEMU emulates: a busy machine takes several times the budget.
part_rdma() {
  built unit && suite rdma $([ -n "$long" ] && echo 5400 || echo 900) test/rdma/run --components "$components"
}

build_suite() {
  test/mpi/pt2pt-suite --components "$components" --cache "$work/suite" --build-only
}

part_suite() {
  built suite &&
    suite suite 2400 test/mpi/pt2pt-suite --components "$components" --cache "$work/suite" ${long:+--compare}
}

# MPICH is kept in build-check, so that only what changed is built again.
mpich_options() { echo "--torii $top/install --cache $work/suite $*"; }

build_mpich() { test/mpich/run $(mpich_options ${long:+--full}) --build-only; }

part_mpich() { built mpich && suite mpich 5400 test/mpich/run $(mpich_options ${long:+--full}); }

build_vcis() { test/mpich/run $(mpich_options --vcis 3) --build-only; }

part_vcis() {
  built vcis && suite vcis 2400 test/mpich/run $(mpich_options --vcis 3) \
    pt2pt threads/comm threads/init threads/pt2pt threads/rma torii
}

# --- what takes long ------------------------------------------------------------------------------

part_distcheck() {
  done_or_fail "distcheck" "make distcheck" "$work/distcheck.log" \
    make -C "$top/build" distcheck AM_DISTCHECK_CONFIGURE_FLAGS=--enable-werror
}

part_trixie() { suite trixie 7200 contrib/check --system trixie; }

part_debian() {
  local name
  for name in bookworm trixie; do
    suite "debian-$name" 3600 contrib/system "$name" test/debian/run --here
  done
}

part_rpm() { suite rpm 1800 contrib/system bookworm test/rpm/run --here; }

part_aarch64() { suite aarch64 5400 contrib/system bookworm test/aarch64/run --here; }

part_defects() { suite defects 5400 test/defects/run; }
