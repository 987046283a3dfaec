#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zerolab::test {

/// Tracks of a rank.
inline constexpr int kSteps = 0;
inline constexpr int kCompute = 1;
inline constexpr int kCommunication = 2;

struct Slice {
  std::string name;
  int64_t begin = 0;  ///< ns
  int64_t end = 0;
  std::vector<std::string> inside;  ///< the slices around it, the outermost first
  nlohmann::json args;

  bool lies_in(const std::string& name) const {
    return std::ranges::find(inside, name) != inside.end();
  }
};

inline int64_t nanoseconds(const nlohmann::json& microseconds) {
  return std::llround(microseconds.get<double>() * 1e3);
}

/// trace.json, read by what the format says; an event that is not as it should be fails the test.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) {
    std::ifstream stream(path);
    const nlohmann::json file = nlohmann::json::parse(stream);
    about = file.at("otherData");
    for (const nlohmann::json& event : file.at("traceEvents")) {
      const int rank = event.at("pid");
      const std::string phase = event.at("ph");
      if (phase == "X") {
        add_slice(event);
      } else if (phase == "C") {
        counters[rank][event.at("name")].emplace_back(nanoseconds(event.at("ts")),
                                                      event.at("args").at("bytes"));
      } else if (phase == "s") {
        EXPECT_TRUE(starts.emplace(event.at("id"), event).second) << event;
      } else if (phase == "f") {
        EXPECT_EQ(event.at("bp"), "e") << event;
        EXPECT_TRUE(ends.emplace(event.at("id"), event).second) << event;
      } else {
        EXPECT_EQ(phase, "M") << event;
        if (event.at("name") == "process_name") {
          processes[rank] = event.at("args").at("name");
        } else if (event.at("name") == "thread_name") {
          threads[rank].push_back(event.at("args").at("name"));
        }
      }
    }
  }

  const std::vector<Slice>& track(int rank, int track) const { return tracks_.at({rank, track}); }
  std::vector<Slice> named(int rank, int track, const std::string& name) const {
    std::vector<Slice> found;
    for (const Slice& slice : this->track(rank, track)) {
      if (slice.name == name) {
        found.push_back(slice);
      }
    }
    return found;
  }
  std::vector<std::string> names(int rank, int track) const {
    std::vector<std::string> names;
    for (const Slice& slice : this->track(rank, track)) {
      names.push_back(slice.name);
    }
    return names;
  }
  std::vector<Slice> collectives(int rank, const std::string& purpose) const {
    std::vector<Slice> found;
    for (const Slice& slice : track(rank, kCommunication)) {
      if (slice.args.value("purpose", "") == purpose) {
        found.push_back(slice);
      }
    }
    return found;
  }
  /// The innermost slice of a track at a time; of several that end there, the one that begins.
  std::optional<Slice> at(int rank, int track, int64_t time) const {
    std::optional<Slice> found;
    for (const Slice& slice : this->track(rank, track)) {
      if (slice.begin <= time && time <= slice.end &&
          (!found.has_value() || slice.begin > found->begin ||
           slice.inside.size() > found->inside.size())) {
        found = slice;
      }
    }
    return found;
  }

  nlohmann::json about;
  std::map<int, std::string> processes;
  std::map<int, std::vector<std::string>> threads;
  std::map<int, std::map<std::string, std::vector<std::pair<int64_t, int64_t>>>> counters;
  std::map<int64_t, nlohmann::json> starts;
  std::map<int64_t, nlohmann::json> ends;

 private:
  /// Slices of a track come in order of time, and lie within each other or apart.
  void add_slice(const nlohmann::json& event) {
    std::vector<Slice>& track = tracks_[{event.at("pid"), event.at("tid")}];
    Slice slice = {.name = event.at("name"),
                   .begin = nanoseconds(event.at("ts")),
                   .end = nanoseconds(event.at("ts")) + nanoseconds(event.at("dur")),
                   .inside = {},
                   .args = event.at("args")};
    EXPECT_GE(slice.begin, 0) << event;
    EXPECT_GE(slice.end, slice.begin) << event;
    std::vector<Slice>& open = open_[{event.at("pid"), event.at("tid")}];
    if (!track.empty()) {
      EXPECT_GE(slice.begin, track.back().begin) << event;
    }
    while (!open.empty() && open.back().end <= slice.begin) {
      open.pop_back();
    }
    for (const Slice& around : open) {
      EXPECT_LE(slice.end, around.end) << event << " crosses the end of " << around.name;
      slice.inside.push_back(around.name);
    }
    track.push_back(slice);
    open.push_back(slice);
  }

  std::map<std::pair<int, int>, std::vector<Slice>> tracks_;
  std::map<std::pair<int, int>, std::vector<Slice>> open_;
};

}  // namespace zerolab::test
