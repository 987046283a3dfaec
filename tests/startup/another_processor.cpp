// A program as built for Knights Mill, the only processor that ever had these instructions.
#include "apps/startup/instructions.h"

namespace zerolab::app {

extern const Instructions kBuiltFor = {.avx = true, .avx5124fmaps = true};

}  // namespace zerolab::app

int main() { return 0; }
