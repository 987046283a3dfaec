#include <gtest/gtest.h>

#include <fstream>

#include "framework/core/error.h"
#include "framework/plain/backend.h"
#include "tests/checkpoint/saved_engine.h"
#include "tests/data/test_files.h"

namespace zerolab::test {
namespace {

using checkpoint::Checkpoint;

/// A small checkpoint of two ranks, and what is done to it.
class Damage : public testing::Test {
 protected:
  Damage() {
    const std::unique_ptr<Backend> backend = make_plain_backend();
    RunSetup setup;
    setup.world_size = 2;
    setup.steps = 1;
    setup.engine.stage = 1;
    setup.engine.alignment = 1;
    train_and_save(*backend, tiny_mlp({70, 90, 3}), setup, folder_.path(""));
    path_ = checkpoint::find_checkpoint(folder_.path(""));
  }

  std::filesystem::path part(int rank) const {
    return path_ / ("part-00" + std::to_string(rank) + ".safetensors");
  }
  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  /// What opening the checkpoint and reading all of it says; empty: all is well.
  std::string refusal() const {
    try {
      checkpoint::verify(Checkpoint(path_));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  void expect_refusal(const std::string& part_of_it) const {
    const std::string text = refusal();
    EXPECT_NE(text.find(part_of_it), std::string::npos) << "got: " << text;
  }

  data::TempDir folder_;
  std::filesystem::path path_;
};

TEST_F(Damage, NoneIsFoundWhereThereIsNone) { EXPECT_EQ(refusal(), ""); }

/// Flipped bits at many places of the file, first and last byte included: all are found, and those
/// of the data name the record.
TEST_F(Damage, FlippedBitsAreFoundAndTheRecordNamed) {
  const std::string whole = read(part(1));
  const size_t header = 8 + whole[0] + (whole[1] & 0xFF) * 256;
  for (size_t i = 0; i < whole.size(); i += i < 40 ? 1 : 97) {
    std::string damaged = whole;
    damaged[i] ^= 4;
    write(part(1), damaged);
    const std::string text = refusal();
    EXPECT_NE(text.find("part-001.safetensors"), std::string::npos) << i << ": " << text;
    if (i > header + 4096) {
      EXPECT_NE(text.find("is damaged in record 'layers."), std::string::npos) << text;
    }
  }
  std::string damaged = whole;
  damaged.back() ^= 1;
  write(part(1), damaged);
  expect_refusal("is damaged in record");
}

TEST_F(Damage, TruncatedFilesAreFound) {
  const std::string whole = read(part(0));
  for (const size_t length :
       {size_t{0}, size_t{7}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    write(part(0), whole.substr(0, length));
    expect_refusal("part-000.safetensors'");
  }
  write(part(0), whole + "x");
  expect_refusal("part-000.safetensors'");
}

TEST_F(Damage, MissingFilesAreNamed) {
  std::filesystem::remove(part(1));
  expect_refusal("cannot open '" + part(1).string());
  std::filesystem::remove(path_ / "manifest.json");
  EXPECT_NE(data::message_of<Error>([&] { Checkpoint{path_}; }).find("manifest.json"),
            std::string::npos);
}

TEST_F(Damage, ForeignFilesAreRefused) {
  std::filesystem::copy_file(part(0), part(1), std::filesystem::copy_options::overwrite_existing);
  expect_refusal("part-001.safetensors'");
  write(part(1), "no safetensors at all");
  expect_refusal("part-001.safetensors'");
}

/// A manifest with a right checksum that says what is not so.
TEST_F(Damage, AManifestThatLiesIsFound) {
  const std::filesystem::path file = path_ / checkpoint::kManifestName;
  const checkpoint::Manifest truth = checkpoint::parse_manifest(read(file), file);
  const auto lie = [&](auto change) {
    checkpoint::Manifest manifest = truth;
    change(manifest);
    write(file, checkpoint::to_text(manifest));
  };
  lie([](checkpoint::Manifest& manifest) { manifest.parameters[0].shape = {90, 71}; });
  expect_refusal("layers.0.weight/weight ends at element 6300; expected 6390");
  lie([](checkpoint::Manifest& manifest) { manifest.parameters.pop_back(); });
  expect_refusal("of a tensor that the manifest does not name");
  lie([](checkpoint::Manifest& manifest) {
    manifest.parameters.push_back({"layers.9.weight", {4}, false});
  });
  expect_refusal("layers.9.weight/weight ends at element 0; expected 4");
  lie([](checkpoint::Manifest& manifest) { manifest.files.pop_back(); });
  expect_refusal("expected 6300, as the manifest says");
  lie([](checkpoint::Manifest& manifest) { manifest.files.push_back(manifest.files[0]); });
  expect_refusal("are there twice");
  lie([](checkpoint::Manifest& manifest) { manifest.files[0].bytes += 1; });
  expect_refusal("has another size");
  lie([](checkpoint::Manifest& manifest) { manifest.files[0].checksum[0] ^= 1; });
  expect_refusal("are damaged; got a checksum of");
  lie([](checkpoint::Manifest& manifest) { manifest.files[0].name = "../part-000.safetensors"; });
  expect_refusal("is no file of the checkpoint's folder");
  lie([](checkpoint::Manifest& manifest) {
    manifest.parameters[0].shape = {1LL << 40, 1LL << 40};
  });
  expect_refusal("has an impossible shape");
}

}  // namespace
}  // namespace zerolab::test
