[#] start of __file__
dnl SPDX-License-Identifier: BSD-3-Clause
dnl Copyright (c) 2026, the Torii authors
dnl MPICH_SUBCFG_AFTER=src/mpid/ch4

AC_DEFUN([PAC_SUBCFG_PREREQ_]PAC_SUBCFG_AUTO_SUFFIX,[
    AM_COND_IF([BUILD_CH4],[
        for net in $ch4_netmods ; do
            AS_CASE([$net],[torii],[build_ch4_netmod_torii=yes])
        done
    ])
    AM_CONDITIONAL([BUILD_CH4_NETMOD_TORII],[test "X$build_ch4_netmod_torii" = "Xyes"])
])dnl

AC_DEFUN([PAC_SUBCFG_BODY_]PAC_SUBCFG_AUTO_SUFFIX,[
AM_COND_IF([BUILD_CH4_NETMOD_TORII],[
    AC_MSG_NOTICE([RUNNING CONFIGURE FOR ch4:torii])
    AS_CASE([$with_ch4_shmmods],
        [none|no],[],
        [AC_MSG_ERROR([ch4:torii brings its own shared memory and does not work with those of ch4 (--with-ch4-shmmods=$with_ch4_shmmods); configure with --without-ch4-shmmods])])
    dnl Ranks of this node are found by it; ch4 defines it for its shared memory only.
    AC_DEFINE(MPIDI_BUILD_CH4_LOCALITY_INFO, 1, [CH4 should build locality info])
    PAC_SET_HEADER_LIB_PATH([torii])
    PAC_CHECK_HEADER_LIB([torii.h],[torii],[torii_import],[have_torii=yes],[have_torii=no])
    AS_IF([test "$have_torii" != yes],
        [AC_MSG_ERROR([torii.h or a matching libtorii is missing; configure with --with-torii=PREFIX, the prefix of an installed Torii])])
    PAC_LIBS_ADD([-ltorii])
    dnl An older libtorii at run time is then refused at the start, by the name of what it lacks.
    PAC_APPEND_FLAG([-Wl,-z,now],[LDFLAGS])
    AS_CASE([$with_torii],[/*],[PAC_APPEND_FLAG([-Wl,-rpath,$with_torii/lib],[LDFLAGS])])
])dnl end AM_COND_IF(BUILD_CH4_NETMOD_TORII,...)
])dnl end _BODY

[#] end of __file__
