#include "checkpoint/part_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "checkpoint/checksum.h"
#include "checkpoint/component.h"
#include "framework/core/error.h"

namespace zerolab::checkpoint {
namespace {

constexpr int64_t kBlockBytes = 16 << 10;
constexpr int64_t kWriteBytes = 4 << 20;  // a multiple of the block's
constexpr const char* kChecksums = "block_checksums";

int64_t blocks_of(int64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }

std::string checksum_of_file(std::string_view header, std::span<const uint64_t> blocks) {
  const uint64_t both[] = {checksum_of(header), checksum_of(std::as_bytes(blocks))};
  return checksum_text(checksum_of(std::as_bytes(std::span(both))));
}

}  // namespace

std::string Piece::name() const {
  return fmt::format("{}/{}[{}:{}]", parameter, tensor, begin, end);
}

Piece Piece::parse(const std::string& name) {
  const size_t slash = name.rfind('/');
  const size_t bracket = name.rfind('[');
  require(slash != std::string::npos && bracket != std::string::npos && slash < bracket, kComponent,
          "record '{}' is no piece of a tensor; got its name, expected "
          "parameter/tensor[begin:end]",
          name);
  Piece piece = {.parameter = name.substr(0, slash),
                 .tensor = name.substr(slash + 1, bracket - slash - 1)};
  const char* const last = name.data() + name.size();
  const auto [colon, first_error] = std::from_chars(name.data() + bracket + 1, last, piece.begin);
  const auto [end, second_error] = std::from_chars(std::min(colon + 1, last), last, piece.end);
  require(first_error == std::errc() && second_error == std::errc() && *colon == ':' &&
              end + 1 == last && *end == ']' && 0 <= piece.begin && piece.begin < piece.end,
          kComponent, "record '{}' names no range of elements", name);
  return piece;
}

PartInfo write_part(const std::filesystem::path& path, const std::vector<Piece>& pieces,
                    std::span<const std::byte> data) {
  const auto data_bytes = static_cast<int64_t>(data.size());
  std::vector<uint64_t> checksums(blocks_of(data_bytes));
  std::vector<std::pair<std::string, SafetensorsFile::Record>> records;
  int64_t end = static_cast<int64_t>(checksums.size() * sizeof(uint64_t));
  records.push_back({kChecksums, {"U64", {std::ssize(checksums)}, 0, end}});
  for (const Piece& piece : pieces) {
    records.push_back({piece.name(), {"F32", {piece.end - piece.begin}, end, end + piece.bytes()}});
    end += piece.bytes();
  }
  const std::string header = safetensors_header(records, {{"format", "zerolab checkpoint"}});

  NewFile file(path);
  file.write(header);
  file.write(std::as_bytes(std::span(checksums)));  // their place; known at the end
  for (int64_t begin = 0; begin < data_bytes; begin += kWriteBytes) {
    const auto chunk = data.subspan(begin, std::min(kWriteBytes, data_bytes - begin));
    for (int64_t block = 0; block < blocks_of(std::ssize(chunk)); ++block) {
      const int64_t offset = block * kBlockBytes;
      checksums[begin / kBlockBytes + block] =
          checksum_of(chunk.subspan(offset, std::min(kBlockBytes, std::ssize(chunk) - offset)));
    }
    file.write(chunk);
  }
  file.write_at(std::ssize(header), std::as_bytes(std::span(checksums)));
  file.finish();
  return {.name = path.filename().string(),
          .bytes = std::ssize(header) + end,
          .checksum = checksum_of_file(header, checksums)};
}

PartFile::PartFile(const std::filesystem::path& folder, const PartInfo& info)
    : header_((folder / info.name).string()), file_(folder / info.name) {
  require(file_.bytes() == info.bytes, kComponent,
          "'{}' has another size; got {} bytes, expected {}, as the manifest says", path(),
          file_.bytes(), info.bytes);
  const auto checksums = header_.records().find(kChecksums);
  require(checksums != header_.records().end() && checksums->second.dtype == "U64" &&
              checksums->second.begin == 0,
          kComponent, "'{}' does not begin with a record '{}'; it is no part of a checkpoint",
          path(), kChecksums);
  block_checksums_.resize(checksums->second.numel());
  file_.read(header_.data_begin(), std::as_writable_bytes(std::span(block_checksums_)));
  std::string header(header_.data_begin(), '\0');
  file_.read(0, std::as_writable_bytes(std::span(header)));
  const std::string checksum = checksum_of_file(header, block_checksums_);
  require(checksum == info.checksum, kComponent,
          "the header or the block checksums of '{}' are damaged; got a checksum of {}, expected "
          "{}, as the manifest says",
          path(), checksum, info.checksum);

  const int64_t pieces_begin = checksums->second.end;
  data_begin_ = header_.data_begin() + pieces_begin;
  data_bytes_ = file_.bytes() - data_begin_;
  require(blocks_of(data_bytes_) == std::ssize(block_checksums_), kComponent,
          "'{}' has checksums of {} blocks; expected {}", path(), block_checksums_.size(),
          blocks_of(data_bytes_));
  for (const auto& [name, record] : header_.records()) {
    if (name != kChecksums) {
      const Piece piece = Piece::parse(name);
      require(record.dtype == "F32" && record.end - record.begin == piece.bytes(), kComponent,
              "record '{}' of '{}' has {} bytes of {}; expected {} of F32", name, path(),
              record.end - record.begin, record.dtype, piece.bytes());
      records_.push_back({piece, record.begin - pieces_begin});
    }
  }
  std::ranges::sort(records_, {}, &Record::offset);
}

void PartFile::Reader::read(int64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const int64_t block = offset / kBlockBytes;
    const int64_t begin = offset % kBlockBytes;
    int64_t wanted = std::ssize(out) / kBlockBytes * kBlockBytes;
    if (begin == 0 && wanted > 0) {
      read_blocks(block, out.first(wanted));
    } else {
      const int64_t size = std::min(kBlockBytes, part_.data_bytes_ - block * kBlockBytes);
      if (block != cached_block_) {
        cached_block_ = -1;
        cached_.resize(size);
        read_blocks(block, cached_);
        cached_block_ = block;
      }
      wanted = std::min(size - begin, std::ssize(out));
      std::copy_n(cached_.begin() + begin, wanted, out.begin());
    }
    offset += wanted;
    out = out.subspan(wanted);
  }
}

void PartFile::Reader::read_blocks(int64_t first, std::span<std::byte> out) {
  part_.file_.read(part_.data_begin_ + first * kBlockBytes, out);
  bytes_read_ += std::ssize(out);
  for (int64_t block = first; !out.empty(); ++block) {
    const auto bytes = out.first(std::min<size_t>(kBlockBytes, out.size()));
    if (checksum_of(bytes) != part_.block_checksums_[block]) {
      const auto after =
          std::ranges::upper_bound(part_.records_, block * kBlockBytes, {}, &Record::offset);
      fail(kComponent, "'{}' is damaged in record '{}' or behind it, within bytes [{}, {})",
           part_.path(), std::prev(after)->piece.name(), part_.data_begin_ + block * kBlockBytes,
           part_.data_begin_ + block * kBlockBytes + std::ssize(bytes));
    }
    out = out.subspan(bytes.size());
  }
}

}  // namespace zerolab::checkpoint
