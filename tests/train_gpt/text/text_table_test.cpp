#include "apps/train_gpt/text/text_table.h"

#include <gtest/gtest.h>

namespace zerolab::app {
namespace {

TEST(TextTable, ColumnsStandToTheRightWhereNothingIsSaid) {
  EXPECT_EQ(text_table({{"", "bytes", "ms"}, {"DDP", "16", "1.25"}}),
            "       bytes    ms\n"
            "  DDP     16  1.25\n");
}

TEST(TextTable, TheFirstColumnsCanStandToTheLeft) {
  EXPECT_EQ(text_table({{"name", "shape", "n"}, {"wte", "[7]", "100"}, {"wpe"}, {"w", "[1, 2]"}},
                       {kLeftColumn, kLeftColumn}),
            "  name  shape     n\n"
            "  wte   [7]     100\n"
            "wpe\n"
            "  w     [1, 2]\n");
}

TEST(TextTable, AColumnCanHaveALeastWidth) {
  EXPECT_EQ(text_table({{"a", "bb"}, {"abcd", "b"}},
                       {{.align = Align::kLeft, .least_width = 3}, {.least_width = 5}}),
            "  a        bb\n"
            "  abcd      b\n");
}

TEST(TextTable, ALineOfItsOwnWidensNoColumn) {
  EXPECT_EQ(text_table({{"a", "b"}, {"a title that is long"}, {"1", "2"}}),
            "  a  b\n"
            "a title that is long\n"
            "  1  2\n");
}

TEST(TextTable, CountsColumnsOfTheTerminal) {
  EXPECT_EQ(text_table({{"損失", "x"}, {"e\u0301", "y"}}, {kLeftColumn}),
            "  損失  x\n"
            "  e\u0301     y\n");
}

}  // namespace
}  // namespace zerolab::app
