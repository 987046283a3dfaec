#include "models/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "framework/core/error.h"
#include "framework/file/safetensors.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"
#include "models/llmc_file.h"

namespace zerolab {
namespace {

constexpr std::string_view kWeights = "weights";
constexpr std::string_view kPrefix = "transformer.";
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "wte.weight";
constexpr int64_t kChunk = 1 << 20;  // elements

/// True for the constant masks that Hugging Face stores beside the weights.
bool is_mask(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

std::vector<int64_t> extents_of(const Shape& shape) {
  std::vector<int64_t> extents;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    extents.push_back(shape[axis]);
  }
  return extents;
}

/// Calls `body(begin, numel)` for pieces of `numel` elements.
template <typename Body>
void for_chunks(int64_t numel, const Body& body) {
  for (int64_t begin = 0; begin < numel; begin += kChunk) {
    body(begin, std::min(kChunk, numel - begin));
  }
}

bool are_equal(TensorFile& file, const std::string& a, const std::string& b) {
  const std::vector<int64_t> shape = file.shape_of(a);
  bool equal = shape == file.shape_of(b);
  for_chunks(equal ? numel_of(shape) : 0, [&](int64_t begin, int64_t numel) {
    std::vector<float> of_a(numel);
    std::vector<float> of_b(numel);
    file.read_range(a, begin, of_a);
    file.read_range(b, begin, of_b);
    equal = equal && of_a == of_b;
  });
  return equal;
}

void fill(const Parameter& parameter, TensorFile& file, const std::string& name) {
  RankContext& context = parameter.value().context();
  with_float_type(parameter.value().dtype(), [&]<typename T>(T) {
    for_chunks(parameter.numel(), [&](int64_t begin, int64_t numel) {
      std::vector<float> values(numel);
      file.read_range(name, begin, values);
      std::vector<T> elements(numel);
      std::ranges::transform(values, elements.begin(), rounded<T, float>);
      context.backend().copy_from_host(context.compute(),
                                       std::as_bytes(std::span<const T>(elements)),
                                       parameter.value().range(begin, numel));
    });
  });
}

/// Names without the prefix, to the file's.
std::map<std::string, std::string> bare_names(const TensorFile& file) {
  std::map<std::string, std::string> names;
  for (const std::string& name : file.names()) {
    const std::string bare = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
    if (!is_mask(bare)) {
      require(names.emplace(bare, name).second, kWeights,
              "'{}' names '{}' both with and without the prefix '{}'", file.path(), bare, kPrefix);
    }
  }
  return names;
}

}  // namespace

std::unique_ptr<TensorFile> open_weights(const std::string& path) {
  if (LlmcFile::recognises(path)) {
    return std::make_unique<LlmcFile>(path);
  }
  return std::make_unique<SafetensorsFile>(path);
}

std::string hugging_face_name(const std::string& parameter) {
  return parameter == kHead ? parameter : std::string(kPrefix) + parameter;
}

void load_weights(const std::string& path, const std::vector<Parameter*>& parameters,
                  int64_t n_head) {
  const std::unique_ptr<TensorFile> file = open_weights(path);
  const int64_t file_heads = file->property("n_head");
  require(n_head == 0 || file_heads == 0 || n_head == file_heads, kWeights,
          "'{}' is of a model with another n_head; got {}, expected {}", path, file_heads, n_head);
  const std::map<std::string, std::string> names = bare_names(*file);
  std::set<std::string> wanted;
  for (const Parameter* parameter : parameters) {
    const auto found = names.find(parameter->name());
    require(found != names.end(), kWeights, "'{}' has no record for parameter '{}'{}", path,
            parameter->name(),
            parameter->name() == kHead ? "; it ties the output layer: set model.tie_weights = true"
                                       : "");
    const std::vector<int64_t> shape = file->shape_of(found->second);
    const std::vector<int64_t> expected = extents_of(parameter->shape());
    require(shape == expected, kWeights,
            "record '{}' of '{}' has another shape; got [{}], expected [{}]", found->second, path,
            fmt::join(shape, ", "), fmt::join(expected, ", "));
    wanted.insert(parameter->name());
  }
  for (const auto& [bare, name] : names) {
    const bool head = bare == kHead && wanted.contains(kEmbedding);
    require(wanted.contains(bare) || (head && are_equal(*file, name, names.at(kEmbedding))),
            kWeights, "'{}' has a record '{}' that the model has no parameter for{}", path, name,
            head ? "; it is no copy of the token embedding: set model.tie_weights = false" : "");
  }
  for (const Parameter* parameter : parameters) {
    if (parameter->value().context().backend().computes()) {
      fill(*parameter, *file, names.at(parameter->name()));
    }
  }
}

}  // namespace zerolab
