#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "framework/core/dtype.h"
#include "framework/core/shape.h"
#include "framework/tensor/storage.h"

namespace zerolab {

namespace autograd {
class Node;
}

/// A handle to a contiguous, row-major range of a storage. Copies share memory; a default tensor is
/// empty. `producer` is the autograd node that made it, if gradients flow through it.
class Tensor {
 public:
  Tensor() = default;

  /// Uninitialised memory in the context's current category.
  static Tensor empty(RankContext& context, const Shape& shape, DType dtype);
  static Tensor empty_like(const Tensor& other);
  /// At least `bytes` of uninitialised memory in the workspace's category, as fp32.
  static Tensor workspace(RankContext& context, int64_t bytes);
  static Tensor zeros(RankContext& context, const Shape& shape, DType dtype);
  /// Copies `values` to the device; throws unless there are `shape.numel()` of them.
  template <typename T>
  static Tensor from_host(RankContext& context, const Shape& shape, std::span<const T> values);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int64_t numel() const { return shape_.numel(); }
  int64_t bytes() const { return numel() * size_of(dtype_); }
  RankContext& context() const { return storage_->context(); }

  /// The same memory under another shape of equal `numel`.
  Tensor view(const Shape& shape) const;
  /// `numel` elements from element `begin`, as one dimension; shares memory. No gradient flows
  /// through it: throws where one would be lost, because the tensor has history and its rank
  /// records gradients.
  Tensor range(int64_t begin, int64_t numel) const;
  /// The same bytes read as another dtype, as one dimension; throws unless they divide, and where
  /// `range` would for a gradient's sake.
  Tensor reinterpret(DType dtype) const;
  /// The same memory without its autograd history.
  Tensor detached() const;

  /// Waits for the compute stream and copies to the host. Throws unless T is the dtype.
  template <typename T>
  std::vector<T> to_host() const;
  /// Waits for nothing: the caller has ordered the copy against the streams.
  template <typename T>
  void copy_to_host(std::span<T> out) const;
  /// The one element of a scalar tensor of a floating dtype.
  double item() const;

  /// Raw device memory: for the backends and communicators only.
  std::byte* raw() const;
  template <typename T>
  T* data() const {
    return reinterpret_cast<T*>(raw());
  }

  /// True when no other handle shares the storage, so that it may be overwritten.
  bool is_unique() const { return storage_.use_count() == 1; }
  bool same_memory(const Tensor& other) const {
    return storage_ == other.storage_ && byte_offset_ == other.byte_offset_;
  }

  const std::shared_ptr<autograd::Node>& producer() const { return producer_; }
  Tensor with_producer(std::shared_ptr<autograd::Node> producer) const;

 private:
  /// Throws where `what` of this tensor would lose a gradient.
  void require_no_gradient(std::string_view what) const;

  std::shared_ptr<Storage> storage_;
  int64_t byte_offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::kFloat32;
  std::shared_ptr<autograd::Node> producer_;
};

}  // namespace zerolab
