#include "framework/file/durable_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "framework/core/error.h"
#include "tests/data/test_files.h"

namespace zerolab {
namespace {

std::string read(const std::filesystem::path& path) { return read_text(path, 1000); }

TEST(DurableFile, HasItsNameOnlyWhenItIsCommitted) {
  const data::TempDir folder;
  const std::filesystem::path path = folder.write("file", "older");
  {
    DurableFile file(path);
    file.write("0000 newer");
    EXPECT_EQ(read(path), "older");
    file.rewrite_start("1234");
    file.commit();
  }
  EXPECT_EQ(read(path), "1234 newer");
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));
}

TEST(DurableFile, LeavesTheOlderOneWhereItIsNot) {
  const data::TempDir folder;
  const std::filesystem::path path = folder.write("file", "older");
  folder.write("file.part", "of a killed program");
  { DurableFile(path).write("half"); }
  EXPECT_EQ(read(path), "older");
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));
  EXPECT_NE(data::message_of<Error>([&] {
              DurableFile(folder.path("none/file"));
            }).find("none/file.part': No such file or directory"),
            std::string::npos);
}

TEST(File, ReadsExactlyWhatIsThere) {
  const data::TempDir folder;
  const OpenFile file(folder.write("file", "0123456789"));
  EXPECT_EQ(file.bytes(), 10);
  std::string text(4, ' ');
  file.read(3, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "3456");
  EXPECT_NE(data::message_of<Error>([&] {
              file.read(8, std::as_writable_bytes(std::span(text)));
            }).find("is cut off at byte 10"),
            std::string::npos);
  EXPECT_NE(data::message_of<Error>([&] {
              read_text(folder.path("file"), 9);
            }).find("got 10 bytes, expected at most 9"),
            std::string::npos);
}

}  // namespace
}  // namespace zerolab
