# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Sourced by run: Debian's kernel, and guests of QEMU that it boots. Their files are the machine's, by
# 9p and read-only, but for folders of their own.

# What a guest may take.
memory=512     # MB, of its own
code_memory=64 # MB, of QEMU's, for translated code
boot_limit=60  # s of QEMU's processor time, until the job runs; on an idle machine it takes 10

# The kernel's modules that the guests need, with what these need: files, network, verbs.
modules="virtio_pci 9pnet_virtio 9p virtio_net crc32_generic ib_uverbs rdma_rxe"

# Where in the package they may be; unpacking all of them takes a minute.
module_folders="arch/x86/crypto crypto drivers/infiniband drivers/net/*.ko* drivers/virtio fs/9p fs/fscache
  fs/netfs lib net/9p net/core net/ipv4 net/ipv6"

# cannot REASON: guests cannot be had here, so nothing is tested
cannot() {
  report SKIP guests "$*"
  echo "0 passed, 0 failed"
  exit 77
}

# Sets $kernel to a folder with Debian's kernel (vmlinuz) and modules, kept in the cache under the checksum
# of its package. The package is unpacked there, not installed.
find_kernel() {
  local package version sum new
  package=$(apt-cache depends linux-image-amd64 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  read -r version sum < <(apt-cache show "$package" 2>/dev/null |
    awk '/^Version: / { version = $2 } /^SHA256: / { print version, $2; exit }') || true
  [ -n "$sum" ] || cannot "apt does not know the package linux-image-amd64; apt-get update"
  kernel=$cache/$sum-$(cat - "$here/initramfs" <<<"$modules $module_folders" | sha256sum | cut -c 1-16)
  [ ! -f "$kernel/vmlinuz" ] || return 0
  mkdir -p "$cache" 2>/dev/null || cannot "the cache $cache cannot be made"
  new=$(mktemp -d "$cache/new.XXXXXX") || cannot "nothing can be written to the cache $cache"
  (cd "$new" && apt-get -q download "$package=$version") >"$work/kernel.log" 2>&1 </dev/null ||
    { rm -rf "$new"; cannot "$package does not come by apt-get: $(tail -n 1 "$work/kernel.log")"; }
  if unpack_kernel "$new" >>"$work/kernel.log" 2>&1; then
    mv -T "$new/kernel" "$kernel" 2>/dev/null # another run may have been faster
  else
    report FAIL guests "$package cannot be unpacked: $(tail -n 3 "$work/kernel.log")"
  fi
  rm -rf "$new"
  [ -f "$kernel/vmlinuz" ] || exit 1
}

# unpack_kernel FOLDER: FOLDER/kernel from the package in FOLDER
unpack_kernel() {
  local folder top patterns=()
  set -f
  for top in ./lib/modules ./usr/lib/modules; do # since Debian 13 the latter
    patterns+=("$top/*/modules.builtin")
    for folder in $module_folders; do patterns+=("$top/*/kernel/$folder"); done
  done
  set +f
  mkdir -p "$1/all" "$1/kernel/modules"
  dpkg-deb --fsys-tarfile "$1"/*.deb | tar -C "$1/all" -x --wildcards './boot/vmlinuz-*' \
    "${patterns[@]}" || true # none may be like one of them
  folder=$(find "$1/all" -name modules.builtin -printf %h)
  "$here/initramfs" modules "$folder" "$1/kernel/modules" $modules &&
    mv "$1"/all/boot/vmlinuz-* "$1/kernel/vmlinuz"
}

# Sees to all that guests need, and makes $work/initramfs.
prepare_guests() {
  [ "$(uname -m)" = x86_64 ] || cannot "only for x86_64, this is $(uname -m)"
  [ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || cannot "the kernel is Debian's, this system is not"
  command -v qemu-system-x86_64 >/dev/null || cannot "qemu-system-x86_64 is missing; apt-get install qemu-system-x86"
  command -v rdma >/dev/null || cannot "the command rdma is missing; apt-get install iproute2"
  ls /usr/lib/*/libibverbs/librxe-* >/dev/null 2>&1 ||
    cannot "librxe of libibverbs is missing; apt-get install ibverbs-providers"
  ldconfig -p | grep -q 'libucp\.so\.0' || cannot "UCX is missing; apt-get install libucx0"
  find_kernel
  gcc -O1 -Wall -Wextra -Werror -static -o "$work/init" "$here/init.c" &&
    "$here/initramfs" archive "$work/initramfs" "$work/init" "$kernel/modules" ||
    { report FAIL guests "the initial file system cannot be made"; exit 1; }
}

# start_guest N JOB [NETDEV...]: boots guest N, in which bash runs JOB. Its folder for results is $work/N, and
# each NETDEV, in QEMU's words, gives it a network interface. Sets qemu[N], and fd[N] where QEMU's monitor
# listens.
start_guest() {
  local n=$1 job=$2 folder=$work/$1 netdev count=0 words=()
  shift 2
  mkdir -p "$folder"
  rm -f "$folder/status" "$folder/monitor"
  for netdev in "$@"; do
    words+=(-netdev "$netdev,id=net$count"
      -device "virtio-net-pci,netdev=net$count,mac=52:54:00:77:0$count:0$n,romfile=")
    count=$((count + 1))
  done
  mkfifo "$folder/monitor"
  exec {fd[$n]}<>"$folder/monitor"
  # It ends with this shell, however that ends. The guest's clock counts instructions, two nanoseconds for
  # each, and goes with the machine's only while the guest is idle: so a busy machine makes no time limit in it
  # expire early.
  setpriv --pdeathsig KILL qemu-system-x86_64 -name "torii-rdma-$n" -no-user-config -nodefaults \
    -accel tcg,tb-size=$code_memory -icount shift=1 -cpu max -smp 1 -m $memory -display none -no-reboot \
    -serial "file:$folder/console" -monitor stdio -kernel "$kernel/vmlinuz" -initrd "$work/initramfs" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on \
torii_work=$folder torii_shares=$shares torii_job=$job torii_host=guest$n" \
    -fsdev local,id=machine,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=machine,mount_tag=machine \
    -fsdev "local,id=work,path=$folder,security_model=none" \
    -device virtio-9p-pci,fsdev=work,mount_tag=work \
    "${words[@]}" <"$folder/monitor" >/dev/null 2>"$folder/qemu.log" &
  qemu[$n]=$!
}

# used_seconds PID: of processor time
used_seconds() {
  local stat
  read -r stat 2>/dev/null <"/proc/$1/stat" || { echo 0; return; }
  stat=(${stat##*) })
  echo $(((stat[11] + stat[12]) / $(getconf CLK_TCK)))
}

# monitor N COMMAND: to QEMU's monitor
monitor() { echo "$2" >&"${fd[$1]}"; }

# stop_guest N
stop_guest() {
  [ -n "${qemu[$1]:-}" ] || return 0
  kill -KILL "${qemu[$1]}" 2>/dev/null
  wait "${qemu[$1]}" 2>/dev/null
  exec {fd[$1]}>&-
  unset "qemu[$1]" "fd[$1]"
}

stop_guests() {
  local n
  for n in "${!qemu[@]}"; do stop_guest "$n"; done
}

# await_guest N SECONDS: until its job is over. Prints the lines of its file "lines" as they come. False with
# the reason in $why: it did not boot, or did not end.
await_guest() {
  local n=$1 end=$((SECONDS + $2)) shown=0 runs=
  local folder=$work/$n
  why=
  while kill -0 "${qemu[$n]}" 2>/dev/null && [ -z "$why" ]; do
    sleep 0.3
    show_lines
    [ -n "$runs" ] || ! grep -qs '^guest: runs the job' "$folder/console" || runs=yes
    [ -n "$runs" ] || [ "$(used_seconds "${qemu[$n]}")" -lt $boot_limit ] ||
      why="did not boot within $boot_limit s of processor time"
    [ $SECONDS -lt $end ] || why="did not end within $2 s"
  done
  stop_guest "$n"
  show_lines
  [ -n "$why" ] || [ -s "$folder/status" ] || why="ended without a status"
  [ -n "$why" ] || [ "$(cat "$folder/status")" = 0 ] || why="its job ended with status $(cat "$folder/status")"
  [ -z "$why" ]
}

# Reports the complete lines in $folder/lines behind the first $shown ones.
show_lines() {
  local line
  [ -f "$folder/lines" ] || return 0
  while IFS= read -r line; do
    shown=$((shown + 1))
    tell "$line"
  done < <(tail -n +$((shown + 1)) "$folder/lines")
}

# last_of_guest N: the end of all that it said
last_of_guest() {
  local file
  for file in qemu.log console output; do
    [ ! -s "$work/$1/$file" ] || tail -n 12 "$work/$1/$file" | tr -d '\r' | cut -c 1-300 | sed "s/^/   | $file: /"
  done
}
