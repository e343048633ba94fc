# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by test/mpich/run: builds MPICH in the cache, and with it configures its test suite.

# quietly WHAT LOG COMMAND...
quietly() {
  local what=$1 log=$2 begin=$SECONDS
  shift 2
  "$@" >"$log" 2>&1 </dev/null || { tail -n 20 "$log"; die "$what failed; see $log"; }
  echo "$what: $((SECONDS - begin)) s"
}

# Inputs of the build beside the source: another Torii, or another netmod, and it is made anew.
stamp() {
  echo "$torii"
  cat "$top"/src/netmod/* "$torii/include/torii.h" | cksum
}

# Nothing that the C programs of the suite do not use, and what compiles quickly.
options="--with-datatype-engine=dataloop --disable-static --disable-fortran --disable-cxx
  --disable-romio --disable-doc --disable-dependency-tracking"

# The launcher is not what is tested: Debian's is taken if it is of the same version, or one is built.
launcher_programs="mpiexec.hydra hydra_pmi_proxy hydra_nameserver"
has_launcher() {
  local name version=${1##*/mpich-}
  for name in $launcher_programs; do command -v "$name" >/dev/null || return 1; done
  mpiexec.hydra --version 2>/dev/null | grep -qE "Version: +${version//./\\.}\$"
}

link_launcher() {
  local name
  for name in $launcher_programs; do ln -sf "$(command -v "$name")" "$mpich/bin/$name" || return; done
  ln -sf mpiexec.hydra "$mpich/bin/mpiexec"
}

# Most of the time goes into MPICH's headers, which each of its 750 files includes. So the files
# outside of the netmod are compiled some dozens at a time, but for those that use a name of another
# file for something of their own.
apart='/netmod/|/(opminloc|csel|csel_json_autogen|iscatter_intra_sched_binomial|mpidu_genq_shmem_pool)\.c$'

# join_files BUILD: makes files that include MPICH's, and prints the objects of the library.
join_files() {
  local build=$1 sources number
  sources=$(make -s --no-print-directory -C "$build" --eval \
    'sources: ; @printf "%s\n" $(filter %.c,$(lib_libmpi_la_SOURCES))' sources) && [ -n "$sources" ] ||
    return
  rm -f "$build"/together_*
  for number in 0 1 2 3 4 5 6 7; do
    grep -vE "$apart" <<<"$sources" | awk -v n=$number 'NR % 8 == n { print "#include \"" $0 "\"" }' \
      >"$build/together_$number.c"
    echo "together_$number.lo"
  done
  grep -E "$apart" <<<"$sources" | sed 's|\([^/]*\)\.c$|lib_libmpi_la-\1.lo|'
}

# make_mpich NAME TREE OPTIONS...: builds and installs MPICH in CACHE/NAME-build and CACHE/NAME-install
make_mpich() {
  local name=$1 tree=$2 build=$cache/$1-build launcher=hydra objects
  mpich=$cache/$1-install
  shift 2
  ! has_launcher "$tree" || launcher=no
  mkdir -p "$build"
  # shellcheck disable=SC2086 # the options are words
  if [ ! -f "$build/configured" ]; then
    quietly "configuring MPICH and its suite" "$cache/$name-configure.log" \
      env -C "$build" \
      "$tree/configure" --prefix="$mpich" --with-pm=$launcher "$@" $options
    touch "$build/configured"
  fi
  # Without dependencies make does not see a changed header.
  find "$build" -maxdepth 1 -name '*.lo' -delete
  find "$build/lib" "$build/src/mpid" "$build/src/mpi" -name '*.lo' -delete 2>/dev/null
  objects=$(join_files "$build") || die "$build/Makefile does not tell the files of libmpi"
  # The netmod's own files are compiled as a user's are, the others with less optimization.
  quietly "building MPICH" "$cache/$name-make.log" make -C "$build" -j"$(nproc)" \
    --eval 'together_%.lo: CFLAGS += -O1' lib_libmpi_la_OBJECTS="${objects//$'\n'/ }" \
    INSTALL_DATA_LOCAL_TARGETS= install
  [ $launcher = hydra ] || link_launcher || die "$mpich/bin cannot be written"
}

build_mpich() {
  local name=mpich${vcis:+-vcis} own_options=()
  local build=$cache/$name-build stamp=$cache/${vcis:+vcis-}stamp
  mpich=$cache/$name-install
  suite=$build/test/mpi
  quietly "putting the netmod into MPICH" "$cache/netmod.log" \
    "$top/contrib/mpich/torii-netmod" --prefix "$torii" "$mpich_tree"
  [ -x "$mpich/bin/mpiexec" ] && [ "$(stamp)" = "$(cat "$stamp" 2>/dev/null)" ] && return
  rm -rf "$mpich" "$stamp"
  [ "$(head -n 1 "$build/torii-prefix" 2>/dev/null)" = "$torii" ] || rm -rf "$build"
  mkdir -p "$build" && echo "$torii" >"$build/torii-prefix"
  [ -z "$vcis" ] || own_options=(--enable-thread-cs=per-vci)
  make_mpich "$name" "$mpich_tree" --with-device=ch4:torii --with-torii="$torii" \
    --without-ch4-shmmods "${own_options[@]}"
  stamp >"$stamp"
}

# From a copy of the tree without the netmod.
build_reference() {
  local tree=$cache/reference/${mpich_tree##*/}
  mpich=$cache/reference-install
  suite=$cache/reference-build/test/mpi
  [ -x "$mpich/bin/mpiexec" ] && return
  if [ ! -d "$tree" ]; then
    mkdir -p "$cache/reference" && cp -a "$mpich_tree" "$tree.new" &&
      "$top/contrib/mpich/torii-netmod" --undo "$tree.new" >/dev/null && mv "$tree.new" "$tree" ||
      die "$tree cannot be made"
  fi
  make_mpich reference "$tree" --with-device=ch4:ucx --with-ucx=/usr
}

# For an MPICH that was not built here.
configure_suite() {
  suite=$cache/suite-$(echo "$mpich" | cksum | cut -d ' ' -f 1)
  [ -f "$suite/runtests" ] && [ "$suite/runtests" -nt "$mpich/bin/mpicc" ] && return
  rm -rf "$suite" && mkdir -p "$suite"
  # Its compiler is the installed mpicc, whatever the environment says. There may be no MPI-IO.
  quietly "configuring the suite" "$suite.log" env -u CC -u CXX -u MPICC \
    -C "$suite" "$mpich_tree/test/mpi/configure" \
    --with-mpi="$mpich" --disable-fortran --disable-cxx --disable-romio \
    MPICH_THREAD_LEVEL=MPI_THREAD_MULTIPLE
  # Some programs of 4.2 and later read files beside their sources.
  find "$mpich_tree/test/mpi/coll" -name 'coords-*' -exec cp -t "$suite/coll" {} +
}
