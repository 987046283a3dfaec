#include "models/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "framework/core/backend.h"
#include "framework/core/error.h"
#include "framework/core/rank_context.h"

namespace zerolab {
namespace {

constexpr int64_t kMaxHeaderBytes = 100'000'000;  // as the format's own reader
constexpr std::string_view kComponent = "safetensors";

/// Bytes of an element, or 0 for a type that the format does not have.
int64_t element_bytes(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") {
    return 8;
  }
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") {
    return 4;
  }
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") {
    return 2;
  }
  return dtype == "I8" || dtype == "U8" || dtype == "BOOL" ? 1 : 0;
}

/// A list of non-negative integers that fit, or an exception of the JSON library or ours.
std::vector<int64_t> integers_of(const nlohmann::json& list) {
  std::vector<int64_t> values;
  for (const nlohmann::json& item : list.get_ref<const nlohmann::json::array_t&>()) {
    const bool fits =
        item.is_number_unsigned() && item.get<uint64_t>() <= std::numeric_limits<int64_t>::max();
    require(fits, kComponent, "'{}' is no size", item.dump());
    values.push_back(item.get<int64_t>());
  }
  return values;
}

std::string text_of(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

SafetensorsFile::Record record_of(const nlohmann::json& entry) {
  SafetensorsFile::Record record;
  record.dtype = entry.at("dtype").get<std::string>();
  record.shape = integers_of(entry.at("shape"));
  const std::vector<int64_t> offsets = integers_of(entry.at("data_offsets"));
  require(offsets.size() == 2, kComponent, "data_offsets must be two numbers; got {}",
          offsets.size());
  record.begin = offsets[0];
  record.end = offsets[1];
  return record;
}

/// True for the constant masks that Hugging Face stores beside the weights.
bool is_mask(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

}  // namespace

int64_t SafetensorsFile::Record::numel() const {
  int64_t product = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return product;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path), file_(path, std::ios::binary) {
  require(file_.good(), kComponent, "cannot open '{}'", path);
  file_.seekg(0, std::ios::end);
  const int64_t file_bytes = file_.tellg();
  file_.seekg(0);
  unsigned char length_bytes[8] = {};
  require(file_bytes >= 8 && file_.read(reinterpret_cast<char*>(length_bytes), 8), kComponent,
          "'{}' is no safetensors file; got {} bytes, expected a header length of 8", path,
          file_bytes);
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) {
    header_bytes = header_bytes << 8 | length_bytes[i];
  }
  const int64_t limit = std::min(kMaxHeaderBytes, file_bytes - 8);
  require(header_bytes <= static_cast<uint64_t>(limit), kComponent,
          "'{}' is cut off or no safetensors file; got a header of {} bytes, expected at most {}",
          path, header_bytes, limit);
  std::string header(header_bytes, '\0');
  require(static_cast<bool>(file_.read(header.data(), static_cast<int64_t>(header_bytes))),
          kComponent, "cannot read the header of '{}'", path);
  data_begin_ = 8 + static_cast<int64_t>(header_bytes);
  parse_header(header, file_bytes - data_begin_);
}

void SafetensorsFile::parse_header(const std::string& header, int64_t data_bytes) {
  std::string name;  // of the record being read, for messages
  try {
    const nlohmann::json root = nlohmann::json::parse(header);
    for (const auto& [key, entry] : root.get_ref<const nlohmann::json::object_t&>()) {
      name = key;
      if (key != "__metadata__") {
        records_.emplace(key, record_of(entry));
      }
    }
  } catch (const std::exception& error) {
    fail(kComponent, "the header of '{}' is broken at record '{}': {}", path_, name, error.what());
  }

  std::vector<std::pair<const std::string, Record>*> ordered;
  for (auto& entry : records_) {
    ordered.push_back(&entry);
  }
  std::sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  int64_t position = 0;
  for (const auto* entry : ordered) {
    const Record& record = entry->second;
    require(
        record.begin == position && record.end >= record.begin && record.end <= data_bytes,
        kComponent,
        "record '{}' of '{}' overlaps another, leaves a gap or passes the end; got bytes [{}, {}), "
        "expected to begin at {} within {}",
        entry->first, path_, record.begin, record.end, position, data_bytes);
    position = record.end;
    const int64_t element = element_bytes(record.dtype);
    require(element > 0, kComponent, "record '{}' of '{}' has an unknown dtype '{}'", entry->first,
            path_, record.dtype);
    const int64_t bytes = record.end - record.begin;
    require(bytes % element == 0 && bytes / element == record.numel(), kComponent,
            "record '{}' of '{}' has the wrong size; got {} bytes, expected shape {} of {}",
            entry->first, path_, bytes, text_of(record.shape), record.dtype);
  }
  require(position == data_bytes, kComponent,
          "'{}' has bytes that no record names; got {} bytes of data, expected {}", path_,
          data_bytes, position);
}

const SafetensorsFile::Record& SafetensorsFile::float_record(const std::string& name) const {
  const auto found = records_.find(name);
  require(found != records_.end(), kComponent, "'{}' has no record '{}'", path_, name);
  require(found->second.dtype == "F32", kComponent,
          "record '{}' of '{}' has another element type; got {}, expected F32; convert the file "
          "to fp32",
          name, path_, found->second.dtype);
  return found->second;
}

std::vector<float> SafetensorsFile::read(const std::string& name) {
  const Record& record = float_record(name);
  std::vector<float> values(record.numel());
  file_.seekg(data_begin_ + record.begin);
  require(static_cast<bool>(
              file_.read(reinterpret_cast<char*>(values.data()), record.end - record.begin)),
          kComponent, "cannot read record '{}' of '{}'", name, path_);
  return values;
}

std::string safetensors_header(
    const std::vector<std::pair<std::string, SafetensorsFile::Record>>& records,
    const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    root["__metadata__"] = metadata;
  }
  for (const auto& [name, record] : records) {
    root[name] = {{"dtype", record.dtype},
                  {"shape", record.shape},
                  {"data_offsets", {record.begin, record.end}}};
  }
  std::string text = root.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string header;
  for (uint64_t left = text.size(); header.size() < 8; left >>= 8) {
    header += static_cast<char>(left & 0xFF);
  }
  return header + text;
}

void load_weights(const std::string& path, const std::vector<Parameter*>& parameters) {
  constexpr std::string_view kPrefix = "transformer.";
  SafetensorsFile file(path);
  std::map<std::string, std::string> record_names;  // a parameter's name to the file's
  for (const auto& [name, record] : file.records()) {
    const std::string bare = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
    if (!is_mask(bare)) {
      require(record_names.emplace(bare, name).second, kComponent,
              "'{}' names '{}' both with and without the prefix '{}'", path, bare, kPrefix);
    }
  }

  // All is checked before the first parameter is touched.
  std::set<std::string> wanted;
  for (const Parameter* parameter : parameters) {
    const auto found = record_names.find(parameter->name());
    require(found != record_names.end(), kComponent, "'{}' has no record for parameter '{}'", path,
            parameter->name());
    const SafetensorsFile::Record& record = file.float_record(found->second);
    std::vector<int64_t> shape;
    for (int axis = 0; axis < parameter->shape().rank(); ++axis) {
      shape.push_back(parameter->shape()[axis]);
    }
    require(record.shape == shape, kComponent,
            "record '{}' of '{}' has another shape; got {}, expected {}", found->second, path,
            text_of(record.shape), text_of(shape));
    wanted.insert(parameter->name());
  }
  for (const auto& [bare, name] : record_names) {
    const bool tied_head = bare == "lm_head.weight" && wanted.contains("wte.weight") &&
                           file.read(name) == file.read(record_names.at("wte.weight"));
    require(wanted.contains(bare) || tied_head, kComponent,
            "'{}' has a record '{}' that the model has no parameter for", path, name);
  }

  for (const Parameter* parameter : parameters) {
    const std::vector<float> values = file.read(record_names.at(parameter->name()));
    RankContext& context = parameter->value().context();
    with_float_type(parameter->value().dtype(), [&]<typename T>(T) {
      std::vector<T> elements(values.size());
      std::transform(values.begin(), values.end(), elements.begin(), rounded<T, float>);
      context.backend().copy_from_host(
          context.compute(), std::as_bytes(std::span<const T>(elements)), parameter->value());
    });
  }
}

}  // namespace zerolab
