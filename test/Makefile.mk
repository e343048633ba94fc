# SPDX-License-Identifier: BSD-3-Clause
# The common part of all test programs. A program says what differs: its sources, unless they are
# one file of its name, and libraries, unless it is about all that is inside the library.
TEST_CPPFLAGS = $(INCLUDE_FLAGS) -I$(top_srcdir)/test $(GTEST_CFLAGS) \
	-DTORII_SRCDIR=\"$(abs_top_srcdir)\"
PLAIN_TEST_CXXFLAGS = $(TEST_OPTIMIZE) $(WARNING_FLAGS) $(SANITIZER_FLAGS) -fvisibility=hidden \
	-fno-rtti
TEST_CXXFLAGS = $(PLAIN_TEST_CXXFLAGS) $(PRECOMPILED_FLAGS)
LDADD = libtorii_internal.la -lpthread -ldl
AM_DEFAULT_SOURCE_EXT = .cc
objects_of = $(foreach name,$(1),$($(subst .,_,$(subst -,_,$(subst /,_,$(name))))_OBJECTS))
$(call objects_of,$(check_PROGRAMS) $(check_LIBRARIES)): AM_CPPFLAGS = $(TEST_CPPFLAGS)
# Programs of GoogleTest.
gtest_programs =
gtest_objects = $(call objects_of,$(gtest_programs) $(check_LIBRARIES))
$(gtest_objects): AM_CXXFLAGS = $(TEST_CXXFLAGS)
$(gtest_objects): $(PRECOMPILED_HEADER)
$(gtest_programs): private LIBS += $(GTEST_LIBS)
EXTRA_DIST += test/aarch64/run test/debian/run test/rpm/run test/examples/run test/fake_driver.h test/precompiled.h test/party.h test/recorder.h \
	test/refused_calls.h test/run test/sanitized.h test/trust.h test/world.h

# GoogleTest's header is most of what the compiler reads for a test: it is compiled once. Both
# compilers find the result by -include, and where there is none the tests include what they need.
if PRECOMPILED
PRECOMPILED_FLAGS = -include test/precompiled.h
PRECOMPILED_HEADER = test/precompiled.h.gch
endif
precompile = $(CXX) $(DEFS) $(DEFAULT_INCLUDES) $(TEST_CPPFLAGS) \
	$(CPPFLAGS) $(PLAIN_TEST_CXXFLAGS) $(CXXFLAGS)
test/precompiled.h.gch: test/precompiled.h test/precompiled.flags
	$(AM_V_GEN)$(precompile) -MD -MP -MF test/precompiled.d -MT $@ -x c++-header -o $@ \
		$(srcdir)/test/precompiled.h
# A file that changes when the flags do.
test/precompiled.flags: always
	@$(MKDIR_P) test && { echo '$(precompile)' | cmp -s - $@ || echo '$(precompile)' >$@; }
always:
-include test/precompiled.d
CLEANFILES += test/precompiled.h.gch test/precompiled.flags test/precompiled.d

# In the order in which they run, the longest first. Programs that stay in their own process run
# side by side if make may do several things at once; scripts start launchers and jobs and measure
# time, so they run alone.
test_programs =
# Those of them that find more at full speed, or are not built with sanitizers; the others are run with
# sanitizers, and by contrib/check --long without them, too.
plain_programs =
# Programs that scripts start.
helper_programs = $(filter-out $(test_programs),$(check_PROGRAMS))
test_scripts =
# For the thread sanitizer.
threaded_programs =
TESTS = $(test_programs) $(test_scripts)
TEST_EXTENSIONS = .sh
LOG_COMPILER = flock -s -o test/running timeout --foreground 600 $(TEST_RUNNER)
SH_LOG_COMPILER = flock -x -o test/running timeout --foreground 300
# Tests see what is built in, not what the user has measured on this machine.
AM_TESTS_ENVIRONMENT = TORII_TUNE_FILE=; export TORII_TUNE_FILE; \
	: $${ASAN_OPTIONS=detect_stack_use_after_return=1} $${UBSAN_OPTIONS=print_stacktrace=1}; \
	export ASAN_OPTIONS UBSAN_OPTIONS;
CLEANFILES += test/running

# For scripts: the names in a list of the above.
print-%:
	@echo $($*)
