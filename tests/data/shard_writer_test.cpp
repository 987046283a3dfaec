#include "data/shard_writer.h"

#include <gtest/gtest.h>

#include "data/corpus.h"
#include "framework/core/error.h"
#include "tests/data/test_files.h"

namespace zerolab::data {
namespace {

namespace fs = std::filesystem;

TEST(ShardWriter, WritesShardsThatACorpusReads) {
  const TempDir folder;
  ShardWriter writer(folder.path(""), 3, 7);
  const std::vector<int32_t> tokens = {1, 65535, 3, 4};
  EXPECT_EQ(writer.append(tokens), 3U);
  EXPECT_TRUE(writer.is_full());
  EXPECT_FALSE(fs::exists(folder.path("shard_000007.bin")));
  writer.finish_shard();
  EXPECT_EQ(writer.next(), 8);
  EXPECT_EQ(writer.append(std::span(tokens).last(1)), 1U);
  EXPECT_FALSE(writer.is_full());
  writer.finish_shard();

  const Corpus corpus(std::vector<std::string>{folder.path("*")});
  EXPECT_EQ(corpus.paths(), (std::vector<std::string>{folder.path("shard_000007.bin"),
                                                      folder.path("shard_000008.bin")}));
  EXPECT_EQ(std::vector<uint16_t>(corpus.shards()[0].begin(), corpus.shards()[0].end()),
            (std::vector<uint16_t>{1, 65535, 3}));
  EXPECT_EQ(corpus.shards()[1].size(), 1U);
  EXPECT_EQ(corpus.shards()[1].front(), 4);
}

TEST(ShardWriter, LeavesNothingOfAShardThatIsNotFinished) {
  const TempDir folder;
  {
    ShardWriter writer(folder.path(""), 3, 0);
    writer.append(std::vector<int32_t>{1, 2});
    EXPECT_TRUE(fs::exists(folder.path("shard_000000.bin.part")));
  }
  EXPECT_TRUE(fs::is_empty(folder.path("")));
}

TEST(ShardWriter, NamesAFolderThatCannotBeWritten) {
  const TempDir folder;
  ShardWriter writer(folder.path("none"), 3, 0);
  const std::string message = message_of<Error>([&] { writer.append(std::vector<int32_t>{1}); });
  EXPECT_NE(message.find("none/shard_000000.bin.part': No such file"), std::string::npos)
      << message;
  EXPECT_THROW(ShardWriter(folder.path(""), 0, 0), Error);
  EXPECT_THROW(ShardWriter(folder.path(""), int64_t{1} << 31, 0), Error);
}

TEST(DurableFile, ReplacesAnOlderFileOnlyAtTheEnd) {
  const TempDir folder;
  const std::string path = folder.write("file", "older");
  const auto content = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  DurableFile file(path);
  file.write("a newer one");
  file.rewrite_start("A");
  EXPECT_EQ(content(), "older");
  file.commit();
  EXPECT_EQ(content(), "A newer one");
  EXPECT_FALSE(fs::exists(path + ".part"));
}

}  // namespace
}  // namespace zerolab::data
