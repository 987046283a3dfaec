#pragma once

#include <cstdint>
#include <string>

namespace zerolab::app {

/// "0:07", "12:34", "2:05:00"; "--:--" for a negative number.
std::string format_duration(double seconds);
/// "512 B", "1.5 KiB", "3.2 GiB".
std::string format_bytes(int64_t bytes);
/// "950", "12.3k", "4.5M".
std::string format_count(double count);

}  // namespace zerolab::app
