// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/table.h"

#include <algorithm>

#include "core/base/log.h"

namespace torii {
namespace {

using Row = std::vector<std::string>;

// Heading and rows as people see them.
std::vector<Row> grid_of(const Table& table) {
  std::vector<Row> grid = {table.columns};
  grid.insert(grid.end(), table.rows.begin(), table.rows.end());
  if (!table.transposed) return grid;
  std::vector<Row> turned(table.columns.size(), Row(grid.size()));
  for (size_t r = 0; r < grid.size(); ++r) {
    for (size_t c = 0; c < table.columns.size(); ++c) turned[c][r] = grid[r][c];
  }
  return turned;
}

// Appends `text` at column `indent`, broken between words so that lines end before `width`.
void append_wrapped(std::string* out, const std::string& text, size_t indent, size_t width) {
  const size_t room = std::max<size_t>(width > indent ? width - indent : 0, 24);
  std::string rest = text;
  while (rest.size() > room) {
    size_t space = rest.rfind(' ', room);
    if (space == std::string::npos) space = rest.find(' ');
    if (space == std::string::npos) break;
    *out += rest.substr(0, space) + "\n" + std::string(indent, ' ');
    rest.erase(0, space + 1);
  }
  *out += rest;
}

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += format_text("\\u%04x", c);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_row(const Table& table, const Row& row) {
  std::string out = "{";
  for (size_t c = 0; c < row.size(); ++c) {
    out += (c ? ", " : "") + quoted(table.columns[c]) + ": " + quoted(row[c]);
  }
  return out + "}";
}

}  // namespace

std::string text_of(const Table& table, size_t width) {
  const std::vector<Row> grid = grid_of(table);
  std::vector<size_t> widths(grid[0].size());
  for (const Row& row : grid) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out = table.name + "\n";
  for (const Row& row : grid) {
    std::string line = "  ";
    for (size_t c = 0; c + 1 < row.size(); ++c) {
      line += row[c] + std::string(widths[c] - row[c].size() + 2, ' ');
    }
    append_wrapped(&line, row.back(), line.size(), width);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string markdown_of(const Table& table) {
  const std::vector<Row> grid = grid_of(table);
  std::string out;
  for (size_t r = 0; r < grid.size(); ++r) {
    for (const std::string& cell : grid[r]) out += "| " + markdown_cell(cell) + " ";
    out += "|\n";
    if (r > 0) continue;
    for (size_t c = 0; c < grid[0].size(); ++c) out += "|---";
    out += "|\n";
  }
  return out;
}

std::string json_of(const std::vector<Table>& tables) {
  std::string out = "{";
  for (size_t t = 0; t < tables.size(); ++t) {
    out += (t ? ",\n " : "\n ") + quoted(tables[t].name) + ": [";
    for (size_t r = 0; r < tables[t].rows.size(); ++r) {
      out += (r ? ",\n  " : "\n  ") + json_row(tables[t], tables[t].rows[r]);
    }
    out += "]";
  }
  return out + "\n}\n";
}

}  // namespace torii
