#include "apps/train_gpt/text/display_width.h"

#include <gtest/gtest.h>

namespace zerolab::app {
namespace {

TEST(DisplayWidth, IsOfWhatIsSeen) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("step 1"), 6);
  EXPECT_EQ(display_width("\x1b[32m==\x1b[0m>"), 3);
  EXPECT_EQ(display_width("\x1b[32"), 0);
  EXPECT_EQ(display_width("▁█…"), 3);
  EXPECT_EQ(display_width("größe"), 5);
}

TEST(DisplayWidth, CharactersOfEastAsiaTakeTwoColumns) {
  EXPECT_EQ(display_width("損失"), 4);
  EXPECT_EQ(display_width("손실"), 4);
  EXPECT_EQ(display_width("ｌｏｓｓ"), 8);
  EXPECT_EQ(display_width("ﾛｽ"), 2);  // halfwidth forms, above U+3000 too
}

TEST(DisplayWidth, CombiningMarksTakeNone) {
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width("gro\u0308\u00DFe"), 5);
  EXPECT_EQ(display_width("न\u093C"), 1);
  EXPECT_EQ(display_width("a\u200Db"), 2);  // a joiner without width
}

TEST(DisplayWidth, EmojiTakeTwo) {
  EXPECT_EQ(display_width("😀"), 2);
  EXPECT_EQ(display_width("run 🚀"), 6);
  EXPECT_EQ(display_width("✨"), 2);  // below U+3000
}

TEST(DisplayWidth, WhatIsNoUtf8TakesOneAByte) {
  EXPECT_EQ(display_width("a\xFF\xC3"), 3);
  EXPECT_EQ(display_width("\xE6\x90"), 2);
}

}  // namespace
}  // namespace zerolab::app
