# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/boot_probe
test_unit_boot_probe_SOURCES = test/unit/boot_probe.cc
test_unit_boot_probe_LDADD = libtorii_internal.la -lpthread -ldl
dist_check_SCRIPTS += test/unit/boot_by_hand.sh test/unit/boot_hydra.sh test/unit/boot_mpirun.sh
EXTRA_DIST += test/unit/boot_launchers.sh
TESTS += test/unit/boot_by_hand.sh test/unit/boot_hydra.sh test/unit/boot_mpirun.sh
if HAVE_GTEST
check_PROGRAMS += test/unit/boot_test
test_unit_boot_test_SOURCES = test/unit/boot_test.cc
test_unit_boot_test_CPPFLAGS = $(TEST_CPPFLAGS)
test_unit_boot_test_LDADD = $(TEST_LIBS)
TESTS += test/unit/boot_test
endif
