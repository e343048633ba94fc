# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/nic/figures
test_programs += test/nic/figures
plain_programs += test/nic/figures
test_nic_figures_SOURCES = \
	test/nic/figures.cc \
	test/nic/figures.def \
	test/nic/figures.h \
	test/nic/ping_pong.cc \
	test/nic/qsnet.cc \
	test/nic/timed.h
test_nic_figures_LDADD = libtorii_nic.la $(LDADD)
$(call objects_of,test/nic/figures): AM_CXXFLAGS += -fno-rtti
EXTRA_DIST += test/nic/README.md test/nic/plot
