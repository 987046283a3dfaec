#include "framework/file/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "framework/core/error.h"

namespace zerolab {
namespace {

constexpr int64_t kMaxHeaderBytes = 100'000'000;  // as the format's own reader
constexpr std::string_view kSafetensors = "safetensors";

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
    require(fits, kSafetensors, "'{}' is no size", item.dump());
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
  require(offsets.size() == 2, kSafetensors, "data_offsets must be two numbers; got {}",
          offsets.size());
  record.begin = offsets[0];
  record.end = offsets[1];
  return record;
}

std::optional<DType> float_type(std::string_view dtype) {
  if (dtype == "F32") {
    return DType::kFloat32;
  }
  if (dtype == "BF16") {
    return DType::kBFloat16;
  }
  return dtype == "F16" ? std::optional(DType::kFloat16) : std::nullopt;
}

/// Parses text whose values nest no deeper than a record's shape: deeper ones would take many
/// times the text's memory.
nlohmann::json parse_flat(const std::string& text) {
  return nlohmann::json::parse(text, [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    require(depth <= 3, kSafetensors, "it nests deeper than a shape");
    return true;
  });
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : TensorFile(path) {
  require(file_bytes() >= 8, kSafetensors,
          "'{}' is no safetensors file; got {} bytes, expected a header length of 8", path,
          file_bytes());
  unsigned char length_bytes[8] = {};
  read_bytes(0, std::as_writable_bytes(std::span(length_bytes)));
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) {
    header_bytes = header_bytes << 8 | length_bytes[i];
  }
  const int64_t limit = std::min(kMaxHeaderBytes, file_bytes() - 8);
  require(header_bytes <= static_cast<uint64_t>(limit), kSafetensors,
          "'{}' is cut off or no safetensors file; got a header of {} bytes, expected at most {}",
          path, header_bytes, limit);
  std::string header(header_bytes, '\0');
  read_bytes(8, std::as_writable_bytes(std::span(header)));
  data_begin_ = 8 + static_cast<int64_t>(header_bytes);
  parse_header(header, file_bytes() - data_begin_);
}

void SafetensorsFile::parse_header(const std::string& header, int64_t data_bytes) {
  std::string name;  // of the record being read, for messages
  try {
    const nlohmann::json root = parse_flat(header);
    for (const auto& [key, entry] : root.get_ref<const nlohmann::json::object_t&>()) {
      name = key;
      if (key != "__metadata__") {
        records_.emplace(key, record_of(entry));
      }
    }
  } catch (const std::exception& error) {
    fail(kSafetensors, "the header of '{}' is broken at record '{}': {}", path(), name,
         error.what());
  }

  std::vector<std::pair<const std::string, Record>*> ordered;
  ordered.reserve(records_.size());
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
        kSafetensors,
        "record '{}' of '{}' overlaps another, leaves a gap or passes the end; got bytes [{}, {}), "
        "expected to begin at {} within {}",
        entry->first, path(), record.begin, record.end, position, data_bytes);
    position = record.end;
    const int64_t element = element_bytes(record.dtype);
    require(element > 0, kSafetensors, "record '{}' of '{}' has an unknown dtype '{}'",
            entry->first, path(), record.dtype);
    const int64_t bytes = record.end - record.begin;
    require(bytes % element == 0 && bytes / element == record.numel(), kSafetensors,
            "record '{}' of '{}' has the wrong size; got {} bytes, expected shape {} of {}",
            entry->first, path(), bytes, text_of(record.shape), record.dtype);
  }
  require(position == data_bytes, kSafetensors,
          "'{}' has bytes that no record names; got {} bytes of data, expected {}", path(),
          data_bytes, position);
}

const SafetensorsFile::Record& SafetensorsFile::float_record(const std::string& name) const {
  const auto found = records_.find(name);
  require(found != records_.end(), kSafetensors, "'{}' has no record '{}'", path(), name);
  require(float_type(found->second.dtype).has_value(), kSafetensors,
          "record '{}' of '{}' has another element type; got {}, expected F32, BF16 or F16", name,
          path(), found->second.dtype);
  return found->second;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(records_.size());
  for (const auto& [name, record] : records_) {
    names.push_back(name);
  }
  return names;
}

std::vector<int64_t> SafetensorsFile::shape_of(const std::string& name) const {
  return float_record(name).shape;
}

void SafetensorsFile::read_range(const std::string& name, int64_t begin, std::span<float> out) {
  const Record& record = float_record(name);
  const DType dtype = *float_type(record.dtype);
  read_floats(data_begin_ + record.begin + begin * size_of(dtype), dtype, out);
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

}  // namespace zerolab
