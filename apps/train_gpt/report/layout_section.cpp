#include <algorithm>
#include <map>
#include <vector>

#include "apps/train_gpt/report/log_fields.h"
#include "apps/train_gpt/report/page_sections.h"

namespace zerolab::app {

using nlohmann::json;

namespace {

constexpr size_t kMostListed = 2000;  ///< parameters and slices, as the log's

struct OwnedRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t owner = 0;
};

OwnedRange range_of(const json& record) {
  const int64_t begin = whole_at(record, "/offset");
  return {.begin = begin,
          .end = begin + whole_at(record, "/numel"),
          .owner = whole_at(record, "/owner")};
}

/// The parts of the parameter at `place` that each of `slices` has: [owner, offset, numel].
json owned_parts(const OwnedRange& place, const std::vector<OwnedRange>& slices) {
  json parts = json::array();
  for (const OwnedRange& slice : slices) {
    const int64_t begin = std::max(place.begin, slice.begin);
    const int64_t end = std::min(place.end, slice.end);
    if (begin < end) {
      parts.push_back({slice.owner, begin - place.begin, end - begin});
    }
  }
  return parts;
}

}  // namespace

json layout_section(const LoggedRun& run) {
  std::map<int64_t, std::vector<OwnedRange>> slices;  // by bucket
  const json logged_slices = list_at(run.map, "/slices", kMostListed);
  for (const json& slice : logged_slices) {
    slices[whole_at(slice, "/bucket")].push_back(range_of(slice));
  }
  json buckets = json::array();
  std::map<int64_t, size_t> index_of;
  for (const auto& [bucket, owned] : slices) {
    json entry = {{"bucket", bucket}, {"slices", json::array()}, {"parameters", json::array()}};
    for (const OwnedRange& slice : owned) {
      entry["slices"].push_back({slice.owner, slice.begin, slice.end - slice.begin});
    }
    index_of[bucket] = buckets.size();
    buckets.push_back(entry);
  }
  const json parameters = list_at(run.map, "/parameters", kMostListed);
  for (const json& parameter : parameters) {
    const auto found = index_of.find(whole_at(parameter, "/bucket"));
    if (found == index_of.end()) {
      continue;
    }
    const OwnedRange place = range_of(parameter);
    buckets[found->second]["parameters"].push_back(
        {{"name", text_of(at(parameter, "/name"))},
         {"offset", place.begin},
         {"numel", place.end - place.begin},
         {"owned", owned_parts(place, slices[found->first])}});
  }
  return {{"hash", text_of(at(run.layout, "/hash"))},
          {"num_params", at(run.layout, "/num_params")},
          {"padding", at(run.layout, "/padding")},
          {"num_buckets", at(run.layout, "/buckets")},
          {"num_parameters", at(run.map, "/num_parameters")},
          {"num_slices", at(run.map, "/num_slices")},
          {"listed_parameters", parameters.size()},
          {"listed_slices", logged_slices.size()},
          {"buckets", buckets}};
}

}  // namespace zerolab::app
