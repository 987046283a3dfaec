#include "framework/tensor/storage.h"

#include "framework/tensor/rank_context.h"

namespace zerolab {

Storage::Storage(RankContext& context, const Shape& shape, DType dtype)
    : context_(context),
      bytes_(shape.numel() * size_of(dtype)),
      category_(context.category()),
      data_(
          static_cast<std::byte*>(context.allocator().allocate(bytes_, category_, shape, dtype))) {}

Storage::~Storage() { context_.allocator().free(data_, bytes_, category_, context_.compute()); }

}  // namespace zerolab
