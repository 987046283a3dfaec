#include "data/bpe_vocabulary.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/data/bpe_files.h"
#include "tests/data/test_files.h"

namespace zerolab::data {
namespace {

TEST(BpeVocabulary, ReadsTokensAndMerges) {
  const BpeVocabulary vocabulary(encoder_json({"ab", "Ġab"}), merge_lines({"a b", "Ġ ab"}));
  EXPECT_EQ(vocabulary.size(), 258);
  EXPECT_EQ(vocabulary.bytes_of(256), "ab");
  EXPECT_EQ(vocabulary.bytes_of(257), " ab");
  const uint16_t a = vocabulary.token_of_byte('a');
  const uint16_t b = vocabulary.token_of_byte('b');
  EXPECT_EQ(vocabulary.merge_of(a, b).rank, 0U);
  EXPECT_EQ(vocabulary.merge_of(a, b).token, 256);
  EXPECT_EQ(vocabulary.merge_of(vocabulary.token_of_byte(' '), 256).rank, 1U);
  EXPECT_EQ(vocabulary.merge_of(b, a).rank, BpeVocabulary::kNoMerge);
  EXPECT_FALSE(vocabulary.end_of_text().has_value());
}

TEST(BpeVocabulary, TakesNoEndOfTextThatMergesMake) {
  const auto end_of = [](const std::vector<std::string>& merges) {
    std::vector<std::string> symbols = {"<|endoftext|>"};
    for (const std::string& merge : merges) {
      std::string both = merge;
      both.erase(both.find(' '), 1);
      symbols.push_back(both);
    }
    return BpeVocabulary(encoder_json(symbols), merge_lines(merges)).end_of_text();
  };
  EXPECT_EQ(end_of({"a b"}), 256);
  EXPECT_FALSE(
      end_of({"< |", "<| e", "<|e n", "<|en d", "<|end o", "<|endo f", "<|endof t", "<|endoft e",
              "<|endofte x", "<|endoftex t", "<|endoftext |", "<|endoftext| >"})
          .has_value());
}

TEST(BpeVocabulary, RefusesDamagedFiles) {
  const std::string good = encoder_json({"ab"});
  const auto failure = [](const std::string& encoder, const std::string& merges) {
    return message_of<Error>([&] { BpeVocabulary(encoder, merges); });
  };
  const auto expect = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(failure("", ""), "encoder.json is damaged");
  expect(failure("[1, 2]", ""), "expected a JSON object");
  expect(failure(good.substr(0, 1000), ""), "encoder.json is damaged");
  expect(failure("{}", ""), "lacks a token for byte 0x00");
  expect(failure(R"({"a": 0, "b": 0})", ""), "each number once; got 0 for 'b'");
  expect(failure(R"({"a": 0, "b": 2})", ""), "got 2 for 'b'");
  expect(failure(R"({"a": -1})", ""), "got -1 for 'a'");
  expect(failure(R"({"a": 0.5})", ""), "got 0.5 for 'a'");
  expect(failure(R"({"a": "0"})", ""), "got \"0\" for 'a'");
  expect(failure(R"({"": 0})", ""), "an empty token");
  expect(failure(R"({"日": 0})", ""), "stands for no byte, at offset 0");
  expect(failure(good, "a b\na"), "merge 2 of vocab.bpe is damaged; got 'a'");
  expect(failure(good, " b"), "merge 1 of vocab.bpe is damaged");
  expect(failure(good, "a b\n\n"), "merge 2 of vocab.bpe is damaged; got ''");
  expect(failure(good, "a c"), "merge 1 of vocab.bpe has a token that encoder.json lacks");
  expect(failure(good, "ac b"), "that encoder.json lacks");
  expect(failure(good, "a b\na b"), "merge 2 of vocab.bpe repeats merge 1: 'a b'");
  EXPECT_EQ(BpeVocabulary(good, "").size(), 257);
  EXPECT_EQ(BpeVocabulary(good, "#version").size(), 257);
}

TEST(BpeVocabulary, RefusesMoreTokensThanShardsCanHold) {
  std::vector<std::string> symbols;
  for (int i = 0; i < 65'536 - 255; ++i) {
    symbols.push_back(fmt::format("t{}", i));
  }
  const std::string message = message_of<Error>([&] { BpeVocabulary(encoder_json(symbols), ""); });
  EXPECT_NE(message.find("got 65537, expected at most 65536"), std::string::npos) << message;
}

TEST(BpeVocabulary, NamesAFolderWithoutItsFiles) {
  const TempDir folder;
  const auto failure = [&](const std::string& path) {
    return message_of<ConfigError>([&] { BpeVocabulary::from_folder(path); });
  };
  EXPECT_NE(failure("").find("set data.vocab"), std::string::npos);
  EXPECT_NE(failure(folder.path("none")).find("encoder.json"), std::string::npos);
  folder.write("encoder.json", encoder_json({"ab"}));
  EXPECT_NE(failure(folder.path("")).find("vocab.bpe'"), std::string::npos);
  folder.write("vocab.bpe", "a b\n");
  EXPECT_EQ(BpeVocabulary::from_folder(folder.path("")).size(), 257);
  folder.write("vocab.bpe", "a\n");
  EXPECT_NE(failure(folder.path("")).find("merge 1 of vocab.bpe"), std::string::npos);
}

}  // namespace
}  // namespace zerolab::data
