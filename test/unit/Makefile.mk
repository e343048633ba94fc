# SPDX-License-Identifier: BSD-3-Clause
include test/unit/core.mk
include test/unit/memory.mk
include test/unit/group.mk
include test/unit/base.mk
include test/unit/sim.mk
include test/unit/fault.mk
include test/unit/boot.mk
include test/unit/tools.mk
include test/unit/shm.mk
include test/unit/hotpath.mk
include test/unit/link.mk
include test/unit/udp.mk
include test/unit/portals.mk
include test/unit/protocol.mk
include test/unit/perf.mk
include test/unit/check.mk
