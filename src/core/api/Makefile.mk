# SPDX-License-Identifier: BSD-3-Clause
libtorii_internal_la_SOURCES += src/core/api/torii_api.cc
