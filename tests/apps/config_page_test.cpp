#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "apps/train_gpt/config.h"

namespace zerolab::app {
namespace {

TEST(ConfigPage, HoldsTheHelp) {
  std::ifstream file(SOURCE_FOLDER "/docs/config.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(page.find("```\n" + config_help() + "```\n"), std::string::npos)
      << "put this between the fences of docs/config.md:\n"
      << config_help();
}

}  // namespace
}  // namespace zerolab::app
