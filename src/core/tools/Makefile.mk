# SPDX-License-Identifier: BSD-3-Clause
nodist_bin_SCRIPTS += src/core/tools/torii-env
