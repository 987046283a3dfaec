#include "apps/train_gpt/setup/modelled_link.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace zerolab::app {
namespace {

bool is_modelled(const CommSection& comm) {
  return comm.bandwidth_gbps > 0.0 || comm.latency_us > 0.0;
}

}  // namespace

std::string modelled_link_text(const CommSection& comm) {
  return is_modelled(comm)
             ? fmt::format("modelled link: {}, latency {} us; times of communication are modelled",
                           comm.bandwidth_gbps > 0.0 ? fmt::format("{} Gbit/s", comm.bandwidth_gbps)
                                                     : "as fast as memory",
                           comm.latency_us)
             : "";
}

nlohmann::json modelled_link_json(const CommSection& comm) {
  return is_modelled(comm) ? nlohmann::json{{"bandwidth_gbps", comm.bandwidth_gbps},
                                            {"latency_us", comm.latency_us}}
                           : nlohmann::json();
}

}  // namespace zerolab::app
