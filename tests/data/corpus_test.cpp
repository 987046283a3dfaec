#include "data/corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "framework/core/error.h"
#include "tests/data/test_files.h"

namespace zerolab::data {
namespace {

using Paths = std::vector<std::string>;

class CorpusTest : public ::testing::Test {
 protected:
  TempDir dir_;

  Corpus open(const Paths& patterns) { return Corpus(patterns); }

  template <typename Failure>
  std::string failure_of(const Paths& patterns) {
    return message_of<Failure>([&] { open(patterns); });
  }
};

TEST_F(CorpusTest, ReadsOneText) {
  const Corpus corpus = open({dir_.write("a.txt", "hello")});
  EXPECT_EQ(corpus.kind(), CorpusKind::kText);
  EXPECT_EQ(corpus.texts(), std::vector<std::string_view>{"hello"});
  EXPECT_TRUE(corpus.shards().empty());
}

TEST_F(CorpusTest, KeepsAListInItsOrderAndSortsAPatternsMatches) {
  for (const char* name : {"b2.txt", "b10.txt", "B1.txt", "c.txt", "a.txt"}) {
    dir_.write(name, name);
  }
  std::filesystem::create_directory(dir_.path("b-folder"));
  EXPECT_EQ(resolve_paths(Paths{dir_.path("c.txt"), dir_.path("[bB]*"), dir_.path("a.txt")}),
            (Paths{dir_.path("c.txt"), dir_.path("B1.txt"), dir_.path("b10.txt"),
                   dir_.path("b2.txt"), dir_.path("a.txt")}));
}

TEST_F(CorpusTest, TakesAnExistingFilesNameAsItIs) {
  const std::string path = dir_.write("part[1].txt", "one");
  dir_.write("part1.txt", "other");
  EXPECT_EQ(resolve_paths(Paths{path}), Paths{path});
}

TEST_F(CorpusTest, MapsShards) {
  const Corpus corpus =
      open({dir_.write_shard("a.bin", {1, 2, 65535}), dir_.write_shard("b.bin", {7})});
  EXPECT_EQ(corpus.kind(), CorpusKind::kTokens);
  EXPECT_TRUE(corpus.texts().empty());
  const auto shards = corpus.shards();
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(std::vector<uint16_t>(shards[0].begin(), shards[0].end()),
            (std::vector<uint16_t>{1, 2, 65535}));
  EXPECT_EQ(std::vector<uint16_t>(shards[1].begin(), shards[1].end()), std::vector<uint16_t>{7});
}

TEST_F(CorpusTest, ViewsSurviveAMove) {
  Corpus first = open({dir_.write("a.txt", "hello")});
  const auto texts = first.texts();
  const Corpus second = std::move(first);
  EXPECT_EQ(texts[0], "hello");
  EXPECT_EQ(second.texts()[0].data(), texts[0].data());
}

TEST_F(CorpusTest, ReadsAnEmptyFileBesideAnother) {
  const Corpus corpus = open({dir_.write("a.txt", ""), dir_.write("b.txt", "b")});
  EXPECT_EQ(corpus.texts(), (std::vector<std::string_view>{"", "b"}));
}

TEST_F(CorpusTest, RefusesAnEmptyCorpus) {
  EXPECT_NE(failure_of<ConfigError>({dir_.write("a.txt", "")}).find("the corpus is empty"),
            std::string::npos);
  EXPECT_NE(failure_of<ConfigError>({dir_.write_shard("a.bin", {})}).find("the corpus is empty"),
            std::string::npos);
  EXPECT_NE(failure_of<ConfigError>({dir_.write("b.bin", "")}).find("the corpus is empty"),
            std::string::npos);
  EXPECT_NE(failure_of<ConfigError>({}).find("got an empty list"), std::string::npos);
}

TEST_F(CorpusTest, NamesAMissingFileAndAPatternWithoutMatch) {
  for (const std::string& path :
       {dir_.path("none.txt"), dir_.path("*.txt"), dir_.path("no/*.txt"), std::string()}) {
    const std::string message = failure_of<ConfigError>({path});
    EXPECT_NE(message.find("no such file; got path '" + path + "'"), std::string::npos) << message;
  }
}

TEST_F(CorpusTest, RefusesAFileNamedTwice) {
  const std::string path = dir_.write("a.txt", "a");
  const std::string message = failure_of<ConfigError>({path, dir_.path("./*.txt")});
  EXPECT_NE(message.find("a file is named twice"), std::string::npos) << message;
}

TEST_F(CorpusTest, RefusesTextsBesideShards) {
  dir_.write("a.txt", "a");
  dir_.write_shard("b.bin", {1});
  const std::string message = failure_of<ConfigError>({dir_.path("*")});
  EXPECT_NE(message.find("a.txt' and '"), std::string::npos) << message;
}

TEST_F(CorpusTest, RefusesWhatIsNoRegularFile) {
  const std::string folder = failure_of<Error>({dir_.path("")});
  EXPECT_NE(folder.find("got a folder"), std::string::npos) << folder;
  const std::string pipe = dir_.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(failure_of<Error>({pipe}).find("got a device or pipe"), std::string::npos);
}

TEST_F(CorpusTest, RefusesAnUnreadableFile) {
  const std::string path = dir_.write("a.txt", "a");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  if (::access(path.c_str(), R_OK) == 0) {
    GTEST_SKIP() << "this user may read every file";
  }
  const std::string message = failure_of<Error>({path});
  EXPECT_NE(message.find("Permission denied"), std::string::npos) << message;
}

TEST_F(CorpusTest, ReadsTokensWithoutAHeader) {
  const std::string path = dir_.write("nano.bin", std::string_view("\x01\0\xff\xff\x0a\x02", 6));
  const Corpus corpus = open({path, dir_.write_shard("with.bin", {7})});
  ASSERT_EQ(corpus.shards().size(), 2U);
  EXPECT_EQ(std::vector<uint16_t>(corpus.shards()[0].begin(), corpus.shards()[0].end()),
            (std::vector<uint16_t>{1, 65535, 522}));
  EXPECT_EQ(corpus.shards()[1].front(), 7);
}

TEST_F(CorpusTest, RefusesAHeaderThatIsCutShort) {
  const std::string path = dir_.write_shard("a.bin", {});
  std::filesystem::resize_file(path, 1023);
  const std::string message = failure_of<Error>({path});
  EXPECT_NE(message.find("got 1023 bytes, expected a header of 1024"), std::string::npos)
      << message;
}

TEST_F(CorpusTest, RefusesATextNamedBinAndHalfATokenBehindNone) {
  for (const std::string_view content : {std::string_view("x"), std::string_view("\1\0\1", 3),
                                         std::string_view("a text that was named .bin")}) {
    const std::string message = failure_of<Error>({dir_.write("a.bin", content)});
    EXPECT_NE(message.find("without llm.c's magic 20240520"), std::string::npos) << message;
  }
}

TEST_F(CorpusTest, RefusesAnotherMagicOrVersion) {
  const std::string magic = failure_of<Error>({dir_.write_shard("a.bin", {1}, {20240801, 1, 1})});
  EXPECT_NE(magic.find("got magic 20240801, expected 20240520"), std::string::npos) << magic;
  const std::string version = failure_of<Error>({dir_.write_shard("a.bin", {1}, {20240520, 2, 1})});
  EXPECT_NE(version.find("got 2, expected 1"), std::string::npos) << version;
}

TEST_F(CorpusTest, RefusesAShardWhoseSizeIsNotItsHeaders) {
  for (const int32_t count : {-1, 0, 2, 4, 2147483647}) {
    const std::string message =
        failure_of<Error>({dir_.write_shard("a.bin", {1, 2, 3}, {20240520, 1, count})});
    EXPECT_NE(message.find("got 1030 bytes"), std::string::npos) << message;
  }
  const std::string path = dir_.write_shard("odd.bin", {1, 2, 3});
  std::filesystem::resize_file(path, 1029);
  EXPECT_NE(failure_of<Error>({path}).find("got 1029 bytes, expected 1030"), std::string::npos);
}

}  // namespace
}  // namespace zerolab::data
