#include <nlohmann/json.hpp>

#include "checkpoint/checksum.h"
#include "checkpoint/manifest.h"
#include "tests/fuzz/fuzz.h"

/// A checkpoint's manifest, as it is; and as the content of one whose checksum is right, which no
/// fuzzer would guess. What can be read is the same when it has been written and read again.
FUZZ(input) {
  using namespace zerolab;
  std::string text(input);
  const nlohmann::json content = nlohmann::json::parse(input, nullptr, false);
  if (content.is_object() && content.contains("state")) {
    const std::string dumped =
        content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    text = R"({"format":"zerolab checkpoint","version":1,"checksum":")" +
           checkpoint::checksum_text(checkpoint::checksum_of(dumped)) + R"(","content":)" + dumped +
           "}";
  }
  const checkpoint::Manifest manifest = checkpoint::parse_manifest(text, "manifest.json");
  require(checkpoint::parse_manifest(checkpoint::to_text(manifest), "again") == manifest, "fuzz",
          "a manifest is another when it is read again");
}
