// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// MatchList and ArrivalList against plain lists, over random insertions, searches and removals.
#include "core/match/match_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <memory>
#include <random>
#include <vector>

namespace torii {
namespace {

constexpr uint64_t kAny = ~uint64_t{0};

struct Entry {
  MatchNode node;
  bool active = true;
};

const uint64_t kIgnores[] = {0, 0x7fffffff, kAny, 0xff, 0xff00};
const uint64_t kSources[] = {0, kAny, 0xffffffff, 0xffffffff00000000};

class MatchListModel : public ::testing::TestWithParam<unsigned> {};

// The first entry in list order that matches and is accepted wins (Portals 3.3, section 3 step 4).
TEST_P(MatchListModel, FindsWhatAPlainListFinds) {
  std::mt19937_64 random(GetParam());
  MatchList list;
  std::list<std::unique_ptr<Entry>> model;
  const unsigned target = 4u << (GetParam() % 8);  // short and long queues
  for (int step = 0; step < 6000; ++step) {
    const bool grow = model.size() < target && random() % 5 < 3;
    if (grow || model.empty()) {
      auto e = std::make_unique<Entry>();
      e->node.source = random() % 4 << 32 | random() % 3;
      e->node.source_ignore = kSources[random() % (GetParam() % 2 ? 4 : 2)];
      e->node.bits = random() % 64;
      e->node.ignore = GetParam() % 5 == 0 ? random() % 64 : kIgnores[random() % 5];
      const auto at =
          model.empty() ? model.end() : std::next(model.begin(), random() % model.size());
      switch (model.empty() ? 0 : random() % 6) {
        case 4:
          list.prepend(&e->node);
          model.push_front(std::move(e));
          break;
        case 5:
          list.insert_before(&(*at)->node, &e->node);
          model.insert(at, std::move(e));
          break;
        case 3:
          list.insert_after(&(*at)->node, &e->node);
          model.insert(std::next(at), std::move(e));
          break;
        default:
          list.append(&e->node);
          model.push_back(std::move(e));
      }
      continue;
    }
    const uint64_t source = random() % 4 << 32 | random() % 3;
    const uint64_t bits = random() % 64;
    (*std::next(model.begin(), random() % model.size()))->active = random() % 4 != 0;
    const auto accept = [](MatchNode* n) { return reinterpret_cast<Entry*>(n)->active; };
    const auto expected = std::find_if(model.begin(), model.end(), [&](const auto& e) {
      return e->node.matches(source, bits) && e->active;
    });
    MatchNode* found = list.find(source, bits, accept);
    ASSERT_EQ(found, expected == model.end() ? nullptr : &(*expected)->node) << "step " << step;
    if (found && found == list.first() && random() % 2) {
      list.remove_first();
      model.erase(expected);
    } else if (found) {
      list.remove(found);
      model.erase(expected);
    }
    ASSERT_EQ(list.size(), model.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MatchListModel, ::testing::Range(1u, 60u));

class ArrivalListModel : public ::testing::TestWithParam<unsigned> {};

TEST_P(ArrivalListModel, FindsTheEarliestMessage) {
  std::mt19937_64 random(GetParam());
  ArrivalList list;
  std::list<std::unique_ptr<ArrivalNode>> model;
  const unsigned target = 4u << (GetParam() % 8);
  for (int step = 0; step < 6000; ++step) {
    if (model.empty() || (model.size() < target && random() % 5 < 3)) {
      auto m = std::make_unique<ArrivalNode>();
      m->source = random() % 5;
      m->bits = random() % 64;
      list.append(m.get());
      model.push_back(std::move(m));
      continue;
    }
    const uint64_t source = random() % 5;
    const uint64_t bits = random() % 64;
    const uint64_t source_ignore = random() % 2 ? kAny : 0;
    const uint64_t ignore = kIgnores[random() % (GetParam() % 3 == 0 ? 5 : 2)];
    const auto expected = std::find_if(model.begin(), model.end(), [&](const auto& m) {
      return ((m->source ^ source) & ~source_ignore) == 0 && ((m->bits ^ bits) & ~ignore) == 0;
    });
    ArrivalNode* found = list.find(source, source_ignore, bits, ignore);
    ASSERT_EQ(found, expected == model.end() ? nullptr : expected->get()) << "step " << step;
    if (found) {
      list.remove(found);
      model.erase(expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ArrivalListModel, ::testing::Range(1u, 60u));

// The labels between two neighbours run out; the order must survive.
TEST(MatchList, ManyInsertionsAtOnePlace) {
  MatchList list;
  std::vector<std::unique_ptr<Entry>> entries;
  const auto make = [&](uint64_t bits) {
    entries.push_back(std::make_unique<Entry>());
    entries.back()->node.bits = bits;
    return &entries.back()->node;
  };
  MatchNode* base = make(1);
  list.append(base);
  list.append(make(1));
  for (int i = 0; i < 500; ++i) list.insert_after(base, make(1));
  std::vector<MatchNode*> order;
  for (MatchNode* n = list.first(); n; n = n->next) order.push_back(n);
  ASSERT_EQ(order.size(), 502u);
  for (MatchNode* expected : order) {
    MatchNode* found = list.find(0, 1, [](MatchNode*) { return true; });
    ASSERT_EQ(found, expected);
    list.remove(found);
  }
}

}  // namespace
}  // namespace torii
