#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Makes ./configure from configure.ac. Needs autoconf, autoconf-archive, automake, libtool, pkg-config.
set -e
cd "$(dirname "$0")"
mkdir -p m4 build-aux
exec autoreconf --install --warnings=all,no-obsolete,no-portability
