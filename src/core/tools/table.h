// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A table for people, for a README, or for a program.
#pragma once

#include <string>
#include <vector>

namespace torii {

struct Table {
  std::string name;                            // JSON key; heading
  std::vector<std::string> columns;            // JSON keys of a row; headings
  std::vector<std::vector<std::string>> rows;  // as many cells as columns
  bool transposed = false;  // people see every row as a column: few rows, many columns
};

// Aligned columns; the last one is wrapped so that lines stay within `width` where words allow.
std::string text_of(const Table& table, size_t width = 100);
std::string markdown_of(const Table& table);
// An object with one array of objects per table; all values are strings.
std::string json_of(const std::vector<Table>& tables);

}  // namespace torii
