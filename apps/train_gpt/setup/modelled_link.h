#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "apps/train_gpt/config/config.h"

namespace zerolab::app {

/// Times of communication over a link that `[comm]` models must be told from measured ones wherever
/// they are shown: "modelled link: 1 Gbit/s, latency 50 us; …", empty without one.
std::string modelled_link_text(const CommSection& comm);
/// {"bandwidth_gbps": 1.0, "latency_us": 50.0}, or null; a bandwidth of 0 is memory's own.
nlohmann::json modelled_link_json(const CommSection& comm);

}  // namespace zerolab::app
