#include "framework/file/tensor_file.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <type_traits>

#include "framework/core/error.h"
#include "framework/core/half.h"

namespace zerolab {
namespace {

constexpr std::string_view kComponent = "weights";

}  // namespace

TensorFile::TensorFile(const std::string& path) : path_(path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {  // opening a pipe would wait
    file_.open(path, std::ios::binary);
  }
  require(file_.is_open(), kComponent, "cannot open '{}'; expected a regular file", path);
  file_.seekg(0, std::ios::end);
  file_bytes_ = file_.tellg();
}

std::vector<float> TensorFile::read(const std::string& name) {
  std::vector<float> values(numel_of(shape_of(name)));
  read_range(name, 0, values);
  return values;
}

void TensorFile::read_bytes(int64_t offset, std::span<std::byte> out) {
  file_.seekg(offset);
  require(static_cast<bool>(file_.read(reinterpret_cast<char*>(out.data()), std::ssize(out))),
          kComponent, "cannot read {} bytes of '{}' from byte {} on", out.size(), path_, offset);
}

void TensorFile::read_floats(int64_t offset, DType dtype, std::span<float> out) {
  with_float_type(dtype, [&]<typename T>(T) {
    if constexpr (std::is_same_v<T, float>) {
      read_bytes(offset, std::as_writable_bytes(out));
    } else {
      std::vector<T> elements(out.size());
      read_bytes(offset, std::as_writable_bytes(std::span(elements)));
      std::ranges::transform(elements, out.begin(),
                             [](T element) { return static_cast<float>(widened(element)); });
    }
  });
}

int64_t numel_of(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return product;
}

}  // namespace zerolab
