#include "checkpoint/manifest.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/checksum.h"
#include "checkpoint/component.h"
#include "checkpoint/json_integer.h"
#include "framework/core/error.h"

namespace zerolab::checkpoint {
namespace {

constexpr const char* kFormat = "zerolab checkpoint";
constexpr int64_t kVersion = 1;

void to_json(nlohmann::json& json, const ParameterInfo& parameter) {
  json = {{"name", parameter.name}, {"shape", parameter.shape}, {"frozen", parameter.frozen}};
}

void from_json(const nlohmann::json& json, ParameterInfo& parameter) {
  json.at("name").get_to(parameter.name);
  for (const nlohmann::json& extent : json.at("shape")) {
    parameter.shape.push_back(integer_of<int64_t>(extent));
  }
  json.at("frozen").get_to(parameter.frozen);
  require(parameter.numel() >= 0, kComponent, "parameter '{}' has an impossible shape",
          parameter.name);
}

void to_json(nlohmann::json& json, const PartInfo& part) {
  json = {{"name", part.name}, {"bytes", part.bytes}, {"checksum", part.checksum}};
}

void from_json(const nlohmann::json& json, PartInfo& part) {
  json.at("name").get_to(part.name);
  part.bytes = integer_of<int64_t>(json.at("bytes"));
  json.at("checksum").get_to(part.checksum);
  require(!part.name.empty() && part.name.find('/') == std::string::npos, kComponent,
          "'{}' is no file of the checkpoint's folder", part.name);
}

template <typename T>
nlohmann::json list_of(const std::vector<T>& items) {
  nlohmann::json list = nlohmann::json::array();
  for (const T& item : items) {
    to_json(list.emplace_back(), item);
  }
  return list;
}

template <typename T>
std::vector<T> items_of(const nlohmann::json& list) {
  std::vector<T> items;
  for (const nlohmann::json& json : list) {
    from_json(json, items.emplace_back());
  }
  return items;
}

}  // namespace

int64_t ParameterInfo::numel() const {
  int64_t product = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(product, extent, &product)) {
      return -1;
    }
  }
  return product;
}

std::vector<ParameterInfo> describe(const std::vector<Parameter*>& parameters) {
  std::vector<ParameterInfo> infos;
  for (const Parameter* parameter : parameters) {
    ParameterInfo& info = infos.emplace_back();
    info.name = parameter->name();
    info.frozen = parameter->frozen();
    for (int axis = 0; axis < parameter->shape().rank(); ++axis) {
      info.shape.push_back(parameter->shape()[axis]);
    }
  }
  return infos;
}

std::string to_text(const Manifest& manifest) {
  const nlohmann::json content = {{"state", manifest.state},
                                  {"parameters", list_of(manifest.parameters)},
                                  {"tensors", manifest.tensors},
                                  {"files", list_of(manifest.files)}};
  const nlohmann::json root = {{"format", kFormat},
                               {"version", kVersion},
                               {"checksum", checksum_text(checksum_of(content.dump()))},
                               {"content", content}};
  return root.dump(1) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::filesystem::path& path) {
  try {
    const nlohmann::json root = nlohmann::json::parse(text);
    require(root.is_object() && root.value("format", "") == kFormat, kComponent,
            "it is no manifest of a zerolab checkpoint");
    const auto version = integer_of<int64_t>(root.at("version"));
    require(version == kVersion, kComponent,
            "it has format version {}, expected {}; read it with the zerolab that wrote it",
            version, kVersion);
    const nlohmann::json& content = root.at("content");
    const std::string checksum = checksum_text(checksum_of(content.dump()));
    const auto expected = root.at("checksum").get<std::string>();
    require(checksum == expected, kComponent, "it is damaged; got a checksum of {}, expected {}",
            checksum, expected);
    return {.state = content.at("state").get<TrainState>(),
            .parameters = items_of<ParameterInfo>(content.at("parameters")),
            .tensors = content.at("tensors").get<std::vector<std::string>>(),
            .files = items_of<PartInfo>(content.at("files"))};
  } catch (const std::exception& error) {
    fail(kComponent, "'{}' cannot be used: {}", path.string(), error.what());
  }
}

}  // namespace zerolab::checkpoint
