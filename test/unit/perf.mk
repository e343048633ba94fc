# SPDX-License-Identifier: BSD-3-Clause
dist_check_SCRIPTS += test/unit/torii_perf.sh
TESTS += test/unit/torii_perf.sh
