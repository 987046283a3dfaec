#include "models/llmc_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "framework/core/error.h"

namespace zerolab {
namespace {

constexpr std::string_view kLlmcWeights = "llm.c weights";
constexpr int32_t kMagic = 20240326;
constexpr int32_t kFloat32Version = 3;
constexpr int32_t kBFloat16Version = 5;
using Header = std::array<int32_t, 256>;

/// One tensor of every layer, as [out, in] or [out].
struct LayerTensor {
  std::string_view name;
  std::vector<int64_t> stored;
  int64_t begin = 0;  ///< of the first layer's, in the file
};

}  // namespace

bool LlmcFile::recognises(const std::string& path) {
  std::error_code error;
  int32_t magic = 0;
  return std::filesystem::is_regular_file(path, error) &&
         std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&magic), 4) &&
         magic == kMagic;
}

LlmcFile::LlmcFile(const std::string& path) : TensorFile(path) {
  Header header = {};
  require(file_bytes() >= static_cast<int64_t>(sizeof(header)), kLlmcWeights,
          "'{}' is cut off; got {} bytes, expected a header of {}", path, file_bytes(),
          sizeof(header));
  read_bytes(0, std::as_writable_bytes(std::span(header)));
  const int32_t version = header[1];
  require(version == kFloat32Version || version == kBFloat16Version, kLlmcWeights,
          "'{}' has another version; got {}, expected {} (fp32) or {} (bf16)", path, version,
          kFloat32Version, kBFloat16Version);
  dtype_ = version == kFloat32Version ? DType::kFloat32 : DType::kBFloat16;
  const auto [magic, _, positions, vocab, layers, heads, width, padded_vocab] =
      std::to_array<int64_t>(
          {header[0], header[1], header[2], header[3], header[4], header[5], header[6], header[7]});
  n_head_ = heads;
  require(std::min({positions, vocab, layers, heads, width}) > 0 && vocab <= padded_vocab,
          kLlmcWeights,
          "the header of '{}' describes no model; got block_size {}, vocab_size {} (padded: {}), "
          "n_layer {}, n_head {}, n_embd {}",
          path, positions, vocab, padded_vocab, layers, heads, width);

  int64_t offset = sizeof(header);
  const auto take = [&](std::string_view name, const std::vector<int64_t>& shape) {
    const int64_t numel = numel_of(shape);
    const int64_t left = (file_bytes() - offset) / size_of(dtype_);
    require(numel <= left, kLlmcWeights,
            "'{}' is cut off or its header lies; got {} elements for {}, expected {}", path, left,
            name, numel);
    return std::exchange(offset, offset + numel * size_of(dtype_));
  };
  records_["wte.weight"] = {take("wte.weight", {padded_vocab, width}), {vocab, width}, false};
  records_["wpe.weight"] = {take("wpe.weight", {positions, width}), {positions, width}, false};
  LayerTensor tensors[] = {{"ln_1.weight", {width}},
                           {"ln_1.bias", {width}},
                           {"attn.c_attn.weight", {3 * width, width}},
                           {"attn.c_attn.bias", {3 * width}},
                           {"attn.c_proj.weight", {width, width}},
                           {"attn.c_proj.bias", {width}},
                           {"ln_2.weight", {width}},
                           {"ln_2.bias", {width}},
                           {"mlp.c_fc.weight", {4 * width, width}},
                           {"mlp.c_fc.bias", {4 * width}},
                           {"mlp.c_proj.weight", {width, 4 * width}},
                           {"mlp.c_proj.bias", {width}}};
  for (LayerTensor& tensor : tensors) {
    std::vector<int64_t> of_all = tensor.stored;
    of_all.insert(of_all.begin(), layers);
    tensor.begin = take(tensor.name, of_all);
  }
  records_["ln_f.weight"] = {take("ln_f.weight", {width}), {width}, false};
  records_["ln_f.bias"] = {take("ln_f.bias", {width}), {width}, false};
  require(offset == file_bytes(), kLlmcWeights,
          "'{}' is longer than its header says; got {} bytes, expected {}", path, file_bytes(),
          offset);
  // Only now, so that a header that lies cannot make names without end.
  for (const LayerTensor& tensor : tensors) {
    const int64_t bytes = numel_of(tensor.stored) * size_of(dtype_);
    const std::vector<int64_t> shape(tensor.stored.rbegin(), tensor.stored.rend());
    for (int64_t layer = 0; layer < layers; ++layer) {
      records_[fmt::format("h.{}.{}", layer, tensor.name)] = {tensor.begin + layer * bytes, shape,
                                                              shape.size() == 2};
    }
  }
}

std::vector<std::string> LlmcFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, record] : records_) {
    names.push_back(name);
  }
  return names;
}

const LlmcFile::Record& LlmcFile::record_of(const std::string& name) const {
  const auto found = records_.find(name);
  require(found != records_.end(), kLlmcWeights, "'{}' has no tensor '{}'", path(), name);
  return found->second;
}

std::vector<int64_t> LlmcFile::shape_of(const std::string& name) const {
  return record_of(name).shape;
}

void LlmcFile::read_range(const std::string& name, int64_t begin, std::span<float> out) {
  const Record& record = record_of(name);
  if (!record.transposed) {
    read_floats(record.offset + begin * size_of(dtype_), dtype_, out);
    return;
  }
  if (name != transposed_name_) {
    transpose(name, record);
  }
  std::copy_n(transposed_.begin() + begin, out.size(), out.begin());
}

void LlmcFile::transpose(const std::string& name, const Record& record) {
  const int64_t in = record.shape[0];
  const int64_t out = record.shape[1];
  std::vector<float> stored(in * out);
  read_floats(record.offset, dtype_, stored);
  transposed_.resize(stored.size());
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t o = 0; o < out; ++o) {
      transposed_[i * out + o] = stored[o * in + i];
    }
  }
  transposed_name_ = name;
}

}  // namespace zerolab
