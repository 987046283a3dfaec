#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace zerolab::test {

/// One event of a TensorBoard file.
struct ReadEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  std::map<std::string, float> scalars;
};

/// Bit by bit, as the polynomial says.
inline uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const unsigned char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t low = (crc ^ byte >> bit) & 1;
      crc = crc >> 1 ^ low * 0x82f63b78;
    }
  }
  return ~crc;
}

/// Reads TFRecord and protobuf as their formats say; throws where a byte is not as it should be.
class EventReader {
 public:
  explicit EventReader(std::string_view bytes) : bytes_(bytes) {}

  std::vector<ReadEvent> all() {
    std::vector<ReadEvent> events;
    while (!bytes_.empty()) {
      const std::string_view length = cut(bytes_, 8);
      check(length);
      const std::string_view event = cut(bytes_, value<uint64_t>(length));
      check(event);
      events.push_back(read_event(event));
    }
    return events;
  }

 private:
  static std::string_view cut(std::string_view& bytes, uint64_t size) {
    if (size > bytes.size()) {
      throw std::runtime_error("the file ends within a record");
    }
    const std::string_view head = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return head;
  }

  template <typename T>
  static T value(std::string_view bytes) {
    T number;
    std::memcpy(&number, bytes.data(), sizeof(number));
    return number;
  }

  void check(std::string_view bytes) {
    const uint32_t rotated = value<uint32_t>(cut(bytes_, 4)) - 0xa282ead8;
    if ((rotated >> 17 | rotated << 15) != crc32c(bytes)) {
      throw std::runtime_error("a checksum is wrong");
    }
  }

  struct Field {
    uint64_t number;
    uint64_t integer = 0;    ///< of a varint
    std::string_view bytes;  ///< of the others
  };

  static uint64_t varint(std::string_view& message) {
    uint64_t number = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(cut(message, 1)[0]);
      number |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        return number;
      }
    }
  }

  static std::vector<Field> fields(std::string_view message) {
    std::vector<Field> found;
    while (!message.empty()) {
      const uint64_t tag = varint(message);
      Field field = {.number = tag >> 3, .bytes = {}};
      switch (tag & 7) {
        case 0:
          field.integer = varint(message);
          break;
        case 1:
          field.bytes = cut(message, 8);
          break;
        case 2:
          field.bytes = cut(message, varint(message));
          break;
        case 5:
          field.bytes = cut(message, 4);
          break;
        default:
          throw std::runtime_error("a field has no known type");
      }
      found.push_back(field);
    }
    return found;
  }

  static ReadEvent read_event(std::string_view bytes) {
    ReadEvent event;
    for (const Field& field : fields(bytes)) {
      if (field.number == 1) {
        event.wall_time = value<double>(field.bytes);
      } else if (field.number == 2) {
        event.step = static_cast<int64_t>(field.integer);
      } else if (field.number == 3) {
        event.file_version = field.bytes;
      } else if (field.number == 5) {
        for (const Field& scalar : fields(field.bytes)) {
          const std::vector<Field> parts = fields(scalar.bytes);
          event.scalars[std::string(parts.at(0).bytes)] = value<float>(parts.at(1).bytes);
        }
      }
    }
    return event;
  }

  std::string_view bytes_;
};

}  // namespace zerolab::test
