#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# torii-env: what it prints, evaluated in a shell, and that Open MPI then searches our directory
# and still finds its own components.
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0
unset OMPI_MCA_mca_base_component_path PMIX_MCA_mca_base_component_path OMPI_MCA_pml OMPI_MCA_mtl
unset OMPI_MCA_osc_rdma_priority torii_env_pml torii_env_mtl torii_env_osc_rdma_priority MPIRUN
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# make_tool SERIES LIBDIR: the tool as if installed for that Open MPI; $tool is its name.
make_tool() {
  tool=$work/torii-env-$1
  sed -e "s|^dir=.*|dir='$2/openmpi'|" -e "s|^series=.*|series=$1|" src/core/tools/torii-env >"$tool"
  chmod +x "$tool"
  mkdir -p "$2/openmpi"
  echo "no shared object" >"$2/openmpi/mca_mtl_torii.so"
}

# equal WHAT EXPECTED GOT
equal() {
  if [ "$2" = "$3" ]; then echo "ok: $1"; else
    echo "failed: $1"; echo "  expected: $2"; echo "  got:      $3"; failed=1
  fi
}

show='printf "%s|%s|%s|%s" "${OMPI_MCA_mca_base_component_path-unset}" "${OMPI_MCA_pml-unset}" "${OMPI_MCA_mtl-unset}" "$(env | grep -c ^torii_env_)"'
on='eval "$("$tool")"'
off='eval "$("$tool" --unset)"'

cat >"$work/mpirun4" <<'END'
#!/bin/sh
echo "mpirun (Open MPI) 4.1.4"
END
sed 's/4\.1\.4/5.0.7/' "$work/mpirun4" >"$work/mpirun5"
chmod +x "$work/mpirun4" "$work/mpirun5"

make_tool 4 "$work/lib"
dir=$work/lib/openmpi
export tool MPIRUN="$work/mpirun4"
equal "from nothing" "$dir:SYS_DEFAULT:USER_DEFAULT|cm|torii|0" "$(sh -ec "$on; $show")"
equal "twice is once" "$dir:SYS_DEFAULT:USER_DEFAULT|cm|torii|0" "$(sh -ec "$on; $on; $show")"
equal "undone" "unset|unset|unset|0" "$(sh -ec "$on; $on; $off; $show")"
equal "undone without need" "unset|unset|unset|0" "$(sh -ec "$off; $show")"
user='export OMPI_MCA_mca_base_component_path="/my dir:SYS_DEFAULT" OMPI_MCA_pml=ob1 OMPI_MCA_mtl="^p'\''sm"'
equal "the user's path stays" "$dir:/my dir:SYS_DEFAULT|cm|torii|2" "$(sh -ec "$user; $on; $on; $show")"
equal "the user's values come back" "/my dir:SYS_DEFAULT|ob1|^p'sm|0" \
  "$(sh -ec "$user; $on; $on; $off; $show")"
equal "a newer choice is not undone" "unset|ucx|unset|0" \
  "$(sh -ec "$on; export OMPI_MCA_pml=ucx; $off; $show")"
equal "mpirun options" \
  "--mca mca_base_component_path $dir:SYS_DEFAULT:USER_DEFAULT --mca pml cm --mca mtl torii --mca osc_rdma_priority 99" \
  "$("$tool" --mpirun)"
equal "mpirun options extend the user's path" \
  "--mca mca_base_component_path $dir:/a:SYS_DEFAULT --mca pml cm --mca mtl torii --mca osc_rdma_priority 99" \
  "$(OMPI_MCA_mca_base_component_path=/a:SYS_DEFAULT "$tool" --mpirun)"
windows='printf "%s" "${OMPI_MCA_osc_rdma_priority-unset}"'
equal "osc/sm before osc/rdma" 99 "$(sh -ec "$on; $windows")"
equal "osc/sm before osc/rdma, undone" unset "$(sh -ec "$on; $off; $windows")"
equal "the user's priority comes back" 7 \
  "$(OMPI_MCA_osc_rdma_priority=7 sh -ec "$on; $off; $windows")"
equal "wrong option" "2" "$("$tool" --foo >/dev/null 2>&1; echo $?)"
equal "help" "0" "$("$tool" --help >"$work/help"; echo $?)"
equal "another Open MPI is refused" "1 1" \
  "$(MPIRUN="$work/mpirun5" "$tool" 2>"$work/err"; echo "$? $(grep -c 'built for Open MPI 4.*is of Open MPI 5' "$work/err")")"

make_tool 4 "$work/a b"
equal "a space in the path, by eval" "$work/a b/openmpi:SYS_DEFAULT:USER_DEFAULT|cm|torii|0" \
  "$(sh -ec "$on; $show")"
equal "a space in the path, as option" 1 "$("$tool" --mpirun 2>/dev/null; echo $?)"
rm "$work/a b/openmpi/mca_mtl_torii.so"
equal "nothing installed" "unset|unset|unset|0" "$(sh -c "$on; $show" 2>"$work/err")"
equal "nothing installed is said" 1 "$(grep -c 'mca_mtl_torii.so is missing' "$work/err")"

make_tool 5 "$work/lib"
equal "mpirun options of Open MPI 5" \
  "--mca pml cm --mca mtl torii env OMPI_MCA_mca_base_component_path=$dir:SYS_DEFAULT:USER_DEFAULT" \
  "$(MPIRUN="$work/mpirun5" "$tool" --mpirun)"

pmix='printf "%s" "${PMIX_MCA_mca_base_component_path-unset}"'
export MPIRUN="$work/mpirun5"
equal "Open MPI 5 needs no priority" unset "$(sh -ec "$on; $windows")"
equal "the path is not PMIx's" "" "$(sh -ec "$on; $pmix" 2>/dev/null)"
equal "nor after that" "unset" "$(sh -ec "$on; $off; $pmix" 2>/dev/null)"
equal "PMIx's own path stays" "/p /p" \
  "$(sh -ec "export PMIX_MCA_mca_base_component_path=/p; $on; $pmix; printf ' '; $off; $pmix" 2>/dev/null)"

# The real Open MPI.
unset MPIRUN
if ! command -v ompi_info >/dev/null; then
  echo "skipped: no ompi_info (Debian: openmpi-bin); the search by Open MPI itself is not tested"
  exit $failed
fi
major=$(ompi_info --parsable | sed -n 's/^ompi:version:full:v*\([0-9]*\)\..*/\1/p')
make_tool "$major" "$work/lib"
sh -c "$on; ompi_info --parsable" >"$work/info" 2>"$work/err"
equal "Open MPI looks into our directory" found \
  "$(grep -q "$dir/mca_mtl_torii" "$work/err" "$work/info" && echo found)"
equal "Open MPI keeps its own components" found "$(grep -q '^mca:pml:cm:' "$work/info" && echo found)"
equal "mpirun works with the options" "here here" \
  "$(mpirun --oversubscribe -np 2 $("$tool" --mpirun) echo here 2>/dev/null | xargs)"
equal "and not without torii-env" "0" \
  "$(ompi_info --parsable 2>&1 | grep -c mca_mtl_torii)"
exit $failed
