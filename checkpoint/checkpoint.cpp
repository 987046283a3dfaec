#include "checkpoint/checkpoint.h"

#include <algorithm>

#include "checkpoint/component.h"
#include "framework/core/error.h"

namespace zerolab::checkpoint {
namespace {

constexpr int64_t kMaxManifestBytes = 64 << 20;

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& folder) : folder_(folder) {
  const std::filesystem::path path = folder / kManifestName;
  manifest_ = parse_manifest(read_text(path, kMaxManifestBytes), path);
  for (const ParameterInfo& parameter : manifest_.parameters) {
    for (const std::string& tensor : manifest_.tensors) {
      if (!parameter.frozen || tensor == kWeight) {
        places_[{parameter.name, tensor}];
      }
    }
  }
  for (const PartInfo& info : manifest_.files) {
    parts_.push_back(std::make_unique<const PartFile>(folder, info));
    for (const PartFile::Record& record : parts_.back()->records()) {
      const auto found = places_.find({record.piece.parameter, record.piece.tensor});
      require(found != places_.end(), kComponent,
              "'{}' holds a record '{}' of a tensor that the manifest does not name",
              parts_.back()->path(), record.piece.name());
      found->second.push_back(
          {record.piece.begin, record.piece.end, parts_.size() - 1, record.offset});
    }
  }
  for (const ParameterInfo& parameter : manifest_.parameters) {
    for (const std::string& tensor : manifest_.tensors) {
      const auto found = places_.find({parameter.name, tensor});
      if (found == places_.end()) {
        continue;
      }
      std::ranges::sort(found->second, {}, &Place::begin);
      int64_t end = 0;
      for (const Place& place : found->second) {
        require(place.begin == end, kComponent,
                "'{}': elements of {}/{} are {}; got [{}, {}) after {}", folder.string(),
                parameter.name, tensor, place.begin < end ? "there twice" : "missing", place.begin,
                place.end, end);
        end = place.end;
      }
      require(end == parameter.numel(), kComponent,
              "'{}': {}/{} ends at element {}; expected {}, as the manifest says", folder.string(),
              parameter.name, tensor, end, parameter.numel());
    }
  }
}

const std::vector<Checkpoint::Place>& Checkpoint::places(const std::string& parameter,
                                                         const std::string& tensor) const {
  const auto found = places_.find({parameter, tensor});
  require(found != places_.end(), kComponent, "'{}' has no tensor {}/{}", folder_.string(),
          parameter, tensor);
  return found->second;
}

Reader::Reader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
  for (const auto& part : checkpoint.parts()) {
    readers_.emplace_back(*part);
  }
}

void Reader::read(const std::string& parameter, const std::string& tensor, int64_t begin,
                  std::span<float> out) {
  const std::vector<Checkpoint::Place>& places = checkpoint_.places(parameter, tensor);
  auto place = std::ranges::upper_bound(places, begin, {}, &Checkpoint::Place::end);
  while (!out.empty()) {
    require(place != places.end() && place->begin <= begin, kComponent,
            "'{}': {}/{} has no element {}", checkpoint_.folder().string(), parameter, tensor,
            begin);
    const int64_t numel = std::min(std::ssize(out), place->end - begin);
    const int64_t offset = place->offset + (begin - place->begin) * 4;
    readers_[place->part].read(offset, std::as_writable_bytes(out.first(numel)));
    begin += numel;
    out = out.subspan(numel);
    ++place;
  }
}

int64_t Reader::bytes_read() const {
  int64_t bytes = 0;
  for (const PartFile::Reader& reader : readers_) {
    bytes += reader.bytes_read();
  }
  return bytes;
}

void verify(const Checkpoint& checkpoint) {
  std::vector<std::byte> buffer;
  for (const auto& part : checkpoint.parts()) {
    PartFile::Reader reader(*part);
    for (const PartFile::Record& record : part->records()) {
      buffer.resize(record.piece.bytes());
      reader.read(record.offset, buffer);
    }
  }
}

}  // namespace zerolab::checkpoint
