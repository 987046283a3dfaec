#include "apps/train_gpt/metrics/tensorboard_log.h"

#include <array>
#include <bit>
#include <chrono>
#include <concepts>

namespace zerolab::app {
namespace {

/// In little-endian order.
template <std::unsigned_integral Bits>
void append(std::string& bytes, Bits value) {
  for (size_t i = 0; i < sizeof(value); ++i) {
    bytes += static_cast<char>(value >> (8 * i));
  }
}

// Protobuf's wire format: each field is a tag, `number << 3 | type`, and its value.

void append_varint(std::string& message, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    message += static_cast<char>(value | 0x80);
  }
  message += static_cast<char>(value);
}

void append_integer(std::string& message, int field, int64_t value) {
  append_varint(message, field << 3);
  append_varint(message, static_cast<uint64_t>(value));
}

void append_double(std::string& message, int field, double value) {
  append_varint(message, field << 3 | 1);
  append(message, std::bit_cast<uint64_t>(value));
}

/// Text, or a message.
void append_bytes(std::string& message, int field, std::string_view value) {
  append_varint(message, field << 3 | 2);
  append_varint(message, value.size());
  message += value;
}

void append_float(std::string& message, int field, float value) {
  append_varint(message, field << 3 | 5);
  append(message, std::bit_cast<uint32_t>(value));
}

constexpr std::array<uint32_t, 256> make_crc_table() {
  constexpr uint32_t kCastagnoli = 0x82f63b78;  // reversed
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (crc & 1 ? kCastagnoli : 0);
    }
    table[byte] = crc;
  }
  return table;
}

/// The CRC-32C of `bytes`, masked as TFRecord wants it.
uint32_t masked_crc(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_crc_table();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return std::rotr(~crc, 15) + 0xa282ead8;
}

/// Length, its checksum, the event, its checksum.
std::string framed(std::string_view event) {
  std::string record;
  append(record, uint64_t{event.size()});
  append(record, masked_crc(record));
  record += event;
  append(record, masked_crc(event));
  return record;
}

/// An `Event` of now, without its content.
std::string new_event(int64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  append_double(event, 1, now.count());  // wall_time
  append_integer(event, 2, step);        // step
  return event;
}

}  // namespace

void EventLog::write(int64_t step, const Scalars& scalars) {
  if (!begun_) {
    std::string version = new_event(0);
    append_bytes(version, 3, "brain.Event:2");  // file_version
    file_.write(framed(version));
    begun_ = true;
  }
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    append_bytes(value, 1, tag);                         // tag
    append_float(value, 2, static_cast<float>(number));  // simple_value
    append_bytes(summary, 1, value);                     // value
  }
  std::string event = new_event(step);
  append_bytes(event, 5, summary);  // summary
  file_.write(framed(event));
}

}  // namespace zerolab::app
