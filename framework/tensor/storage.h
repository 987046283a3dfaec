#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/core/dtype.h"
#include "framework/core/shape.h"
#include "framework/memory/ledger.h"

namespace zerolab {

class RankContext;

/// A block of one rank's memory in the context's current category; tensors share it and see ranges
/// of it.
class Storage {
 public:
  Storage(RankContext& context, const Shape& shape, DType dtype);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  RankContext& context() const { return context_; }
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Category category() const { return category_; }

 private:
  RankContext& context_;
  const int64_t bytes_;
  const Category category_;
  std::byte* data_;
};

}  // namespace zerolab
