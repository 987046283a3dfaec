#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "framework/file/file.h"
#include "framework/file/safetensors.h"

namespace zerolab::checkpoint {

/// Elements [begin, end) of one fp32 tensor of one parameter, seen as one dimension. Knows nothing
/// of ranks, buckets or padding.
struct Piece {
  std::string parameter;
  std::string tensor;  ///< "weight", or a state's name: "exp_avg"
  int64_t begin = 0;
  int64_t end = 0;

  int64_t bytes() const { return (end - begin) * 4; }
  /// The name of its record: "h.0.mlp.c_fc.weight/exp_avg[0:4096]".
  std::string name() const;
  /// The reverse; throws `Error`.
  static Piece parse(const std::string& name);
};

/// What the manifest says of a part file.
struct PartInfo {
  std::string name;  ///< in the checkpoint's folder
  int64_t bytes = 0;
  std::string checksum;  ///< of its header and of its blocks' checksums, and so of all of it

  bool operator==(const PartInfo&) const = default;
};

/// The part of a checkpoint that one rank writes: a safetensors file that begins with the checksums
/// of every 16 KiB, then holds the pieces. So a reader checks what it reads without reading all.
/// `data` holds the pieces' elements one after another. Returns when the disk has the file.
PartInfo write_part(const std::filesystem::path& path, const std::vector<Piece>& pieces,
                    std::span<const std::byte> data);

/// A part file, whose header and block checksums have been read and checked against `info`. May be
/// read by any number of threads, each with a reader of its own.
class PartFile {
 public:
  PartFile(const std::filesystem::path& folder, const PartInfo& info);

  struct Record {
    Piece piece;
    int64_t offset = 0;  ///< bytes from the first piece's
  };
  const std::vector<Record>& records() const { return records_; }
  const std::string& path() const { return header_.path(); }

  class Reader {
   public:
    explicit Reader(const PartFile& part) : part_(part) {}
    /// Bytes [offset, offset + out.size()) of the pieces. Throws `Error`, naming the record, where
    /// they are not what was written.
    void read(int64_t offset, std::span<std::byte> out);
    int64_t bytes_read() const { return bytes_read_; }

   private:
    /// Whole blocks from `first`; the file's last may be shorter.
    void read_blocks(int64_t first, std::span<std::byte> out);

    const PartFile& part_;
    std::vector<std::byte> cached_;  ///< one block: neighbouring pieces share it
    int64_t cached_block_ = -1;
    int64_t bytes_read_ = 0;
  };

 private:
  SafetensorsFile header_;
  OpenFile file_;
  std::vector<uint64_t> block_checksums_;
  std::vector<Record> records_;
  int64_t data_begin_ = 0;  ///< of the pieces, in the file
  int64_t data_bytes_ = 0;
};

}  // namespace zerolab::checkpoint
