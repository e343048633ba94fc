# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/mpich/build.sh test/mpich/expected test/mpich/hello.c test/mpich/last_word.c test/mpich/member_dies.c test/mpich/own test/mpich/peer_dies.c test/mpich/port.c test/mpich/programs.sh test/mpich/quick test/mpich/run test/mpich/table test/mpich/threads.c test/mpich/windows.c
