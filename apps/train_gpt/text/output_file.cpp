#include "apps/train_gpt/text/output_file.h"

#include <fstream>

#include "framework/core/error.h"

namespace zerolab::app {

void write_output(std::string_view component, const std::filesystem::path& path,
                  std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  require(out.good(), component, "cannot write {}; is there such a folder, and room on the disk?",
          path.string());
}

}  // namespace zerolab::app
