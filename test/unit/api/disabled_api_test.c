/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * With TORII_ENABLE=no no interface is opened, and the error names the remedy.
 */
#include <stdlib.h>
#include <string.h>

#include "api_kit.h"

int main(void) {
  const torii_options_t options = {
      .struct_bytes = sizeof options, .job = 7, .size = 1, .local_size = 1};
  torii_ni_t* ni = NULL;
  setenv("TORII_ENABLE", "no", 1);
  CHECK(torii_open(&options, &ni) == TORII_ERR_DENIED);
  CHECK(ni == NULL);
  CHECK(strstr(torii_error(), "unset TORII_ENABLE") != NULL);
  return 0;
}
