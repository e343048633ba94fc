// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/table.h"

#include <gtest/gtest.h>

using namespace torii;

namespace {

Table small() {
  Table table;
  table.name = "things";
  table.columns = {"name", "n", "meaning"};
  table.rows = {{"a", "12345", "one"}, {"longer", "", "two|three"}};
  return table;
}

TEST(Table, TextIsAligned) {
  EXPECT_EQ(text_of(small()),
            "things\n"
            "  name    n      meaning\n"
            "  a       12345  one\n"
            "  longer         two|three\n");
}

TEST(Table, TransposedTextHasRowsAsColumns) {
  Table table = small();
  table.transposed = true;
  EXPECT_EQ(text_of(table),
            "things\n"
            "  name     a      longer\n"
            "  n        12345\n"
            "  meaning  one    two|three\n");
}

TEST(Table, TheLastColumnWraps) {
  Table table = small();
  table.rows = {{"a", "1", "twenty-four characters are the least room"}};
  EXPECT_EQ(text_of(table, 20),
            "things\n"
            "  name  n  meaning\n"
            "  a     1  twenty-four characters\n"
            "           are the least room\n");
  table.rows[0][2] = std::string(50, 'x') + " y";
  EXPECT_EQ(text_of(table, 20),
            "things\n"
            "  name  n  meaning\n"
            "  a     1  " +
                std::string(50, 'x') + "\n           y\n");
}

TEST(Table, MarkdownEscapesBars) {
  EXPECT_EQ(markdown_of(small()),
            "| name | n | meaning |\n"
            "|---|---|---|\n"
            "| a | 12345 | one |\n"
            "| longer |  | two\\|three |\n");
}

TEST(Table, JsonEscapes) {
  Table table = small();
  table.rows = {{"a\"b\\c", "\n", "x"}};
  EXPECT_EQ(json_of({table, small()}),
            "{\n"
            " \"things\": [\n"
            "  {\"name\": \"a\\\"b\\\\c\", \"n\": \"\\u000a\", \"meaning\": \"x\"}],\n"
            " \"things\": [\n"
            "  {\"name\": \"a\", \"n\": \"12345\", \"meaning\": \"one\"},\n"
            "  {\"name\": \"longer\", \"n\": \"\", \"meaning\": \"two|three\"}]\n"
            "}\n");
}

}  // namespace
