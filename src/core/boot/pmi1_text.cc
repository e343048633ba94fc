// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The texts of PMI-1: values made of printable characters, and the process mapping.
#include <algorithm>
#include <charconv>

#include "core/boot/launcher.h"

namespace torii {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Takes `expected` off the front of *text.
bool take(std::string_view* text, std::string_view expected) {
  if (text->substr(0, expected.size()) != expected) return false;
  text->remove_prefix(expected.size());
  return true;
}

bool take_number(std::string_view* text, uint32_t* number) {
  auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(stop - text->data()));
  return true;
}

struct Block {
  uint32_t first_node = 0, nodes = 1, per_node = 1;
};

// "(first,nodes,processes of each)"; since MPICH 4.2 also "first" for one process on one node.
bool take_block(std::string_view* text, Block* block) {
  if (!take(text, "(")) return take_number(text, &block->first_node);
  return take_number(text, &block->first_node) && take(text, ",") &&
         take_number(text, &block->nodes) && take(text, ",") &&
         take_number(text, &block->per_node) && take(text, ")");
}

}  // namespace

std::vector<std::string> encode_pieces(std::span<const std::byte> bytes, size_t piece_max) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = std::to_string(bytes.size()) + ":";
  for (std::byte b : bytes) {
    text += kDigits[static_cast<unsigned>(b) >> 4];
    text += kDigits[static_cast<unsigned>(b) & 15];
  }
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size(); at += piece_max) {
    pieces.push_back(text.substr(at, piece_max));
  }
  return pieces;
}

bool decode_pieces(std::string_view text, std::vector<std::byte>* bytes, bool* more) {
  *more = false;
  uint32_t count = 0;
  if (!take_number(&text, &count) || count > kBootAddressMax || !take(&text, ":")) return false;
  if (text.size() < 2 * size_t{count}) {
    *more = true;
    return false;
  }
  if (text.size() > 2 * size_t{count}) return false;
  bytes->clear();
  for (size_t i = 0; i < count; ++i) {
    int high = hex_digit(text[2 * i]);
    int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes->push_back(static_cast<std::byte>(high << 4 | low));
  }
  return true;
}

bool parse_process_mapping(std::string_view text, uint32_t size, std::vector<uint32_t>* nodes) {
  if (!take(&text, "(vector")) return false;
  std::vector<Block> blocks;
  while (take(&text, ",")) {
    Block b;
    if (!take_block(&text, &b)) return false;
    if (b.nodes == 0 || b.per_node == 0 || b.first_node > UINT32_MAX - b.nodes) return false;
    blocks.push_back(b);
  }
  if (text != ")" || blocks.empty()) return false;
  nodes->clear();
  // The blocks repeat until every rank has a place.
  for (size_t i = 0; nodes->size() < size; i = (i + 1) % blocks.size()) {
    const Block& b = blocks[i];
    for (uint32_t n = 0; n < b.nodes && nodes->size() < size; ++n) {
      nodes->insert(nodes->end(), std::min<size_t>(b.per_node, size - nodes->size()),
                    b.first_node + n);
    }
  }
  return true;
}

}  // namespace torii
