# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""Torii from the clone that this file is in, for Spack 1.0 and later:
spack repo add contrib/spack/spack_repo/torii; spack install torii"""
import os

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class Torii(AutotoolsPackage):
    """Messages of MPI and Portals 3.3 programs: by shared memory between the processes of one node, by
    UDP over Ethernet or by UCX between nodes."""

    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 6))

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("pmix", default=True, description="Starts under PMIx launchers without an MPI")
    variant("ucx", default=False, description="Driver for InfiniBand and RoCE")
    variant("openmpi", default=False,
            description="Components of Open MPI, for one configured --with-devel-headers")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("autoconf", type="build")
    depends_on("autoconf-archive", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("hwloc@2:")
    depends_on("openssl@3:")
    depends_on("pmix", when="+pmix")
    depends_on("ucx@1.13:", when="+ucx")
    depends_on("openmpi@4.1:5", when="+openmpi")

    requires("target=x86_64:", msg="Torii runs on x86-64")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        args = ["--disable-static"] + self.with_or_without("pmix") + self.with_or_without("ucx")
        if self.spec.satisfies("+openmpi"):
            return args + ["--with-openmpi=" + join_path(self.spec["openmpi"].prefix.bin, "mpicc")]
        return args + ["--without-openmpi"]
