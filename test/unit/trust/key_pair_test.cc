// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/trust/key_pair.h"

#include <gtest/gtest.h>

namespace torii {
namespace {

using Curve = KeyPair::Curve;

class KeyPairTest : public testing::TestWithParam<Curve> {
 protected:
  static std::unique_ptr<KeyPair> draw(Curve curve) {
    std::string why;
    auto pair = KeyPair::draw(curve, &why);
    EXPECT_TRUE(pair) << why;
    return pair;
  }
};

TEST_P(KeyPairTest, TwoAgreeAndAThirdDoesNot) {
  const auto a = draw(GetParam()), b = draw(GetParam()), c = draw(GetParam());
  PairKeys ab, ba, cb;
  ASSERT_TRUE(a->agree(b->own(), "x", &ab));
  ASSERT_TRUE(b->agree(a->own(), "x", &ba));
  ASSERT_TRUE(c->agree(b->own(), "x", &cb));
  EXPECT_EQ(ab.to, ba.from);
  EXPECT_EQ(ab.from, ba.to);
  EXPECT_NE(ab.to, ab.from) << "each direction has its own";
  EXPECT_NE(ab.to, cb.to);
  PairKeys other;
  ASSERT_TRUE(a->agree(b->own(), "y", &other));
  EXPECT_NE(ab.to, other.to) << "each purpose has its own";
  PairKeys own;
  ASSERT_TRUE(a->agree(a->own(), "x", &own));
  EXPECT_EQ(own.to, own.from) << "with oneself";
}

TEST_P(KeyPairTest, WhatIsNoKeyIsRefused) {
  const auto a = draw(GetParam());
  PairKeys keys;
  EXPECT_FALSE(a->agree(PublicKey{}, "x", &keys)) << "gives everybody the same secret";
  const auto other = draw(GetParam() == Curve::x25519 ? Curve::p256 : Curve::x25519);
  EXPECT_FALSE(a->agree(other->own(), "x", &keys)) << "of another curve";
  EXPECT_EQ(KeyPair::curve_of(a->own()), GetParam());
  PublicKey all_ones;
  all_ones.fill(std::byte{0xff});
  EXPECT_FALSE(a->agree(all_ones, "x", &keys)) << "not on the curve";
}

INSTANTIATE_TEST_SUITE_P(Curves, KeyPairTest, testing::Values(Curve::x25519, Curve::p256));

TEST(KeyPair, EachDrawGivesAnotherOne) {
  std::string why;
  const auto a = KeyPair::draw(&why), b = KeyPair::draw(&why);
  ASSERT_TRUE(a && b) << why;
  EXPECT_EQ(KeyPair::curve_of(a->own()), Curve::x25519) << "preferred where it is permitted";
  EXPECT_NE(a->own(), b->own());
}

}  // namespace
}  // namespace torii
