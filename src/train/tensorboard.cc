// SPDX-License-Identifier: Apache-2.0
#include "train/tensorboard.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "train/metric_fields.h"

namespace zaya {

namespace {

constexpr std::string_view kNamePrefix = "events.out.tfevents.";

template <class T>
void append_little_endian(T value, std::string& out) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

std::uint32_t masked_checksum(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u;
}

std::string record(std::string_view data) {
  std::string out;
  append_little_endian(std::uint64_t{data.size()}, out);
  append_little_endian(masked_checksum(out), out);
  out += data;
  append_little_endian(masked_checksum(data), out);
  return out;
}

// Protobuf: a field is its key (number and kind), then its value.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_varint(std::uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_key(unsigned field, Wire wire, std::string& out) {
  append_varint(field << 3 | static_cast<unsigned>(wire), out);
}

void append_bytes(unsigned field, std::string_view bytes, std::string& out) {
  append_key(field, Wire::bytes, out);
  append_varint(bytes.size(), out);
  out += bytes;
}

std::string event(double wall_time, Index step) {
  std::string out;
  append_key(1, Wire::fixed64, out);
  append_little_endian(std::bit_cast<std::uint64_t>(wall_time), out);
  if (step != 0) {
    append_key(2, Wire::varint, out);
    append_varint(static_cast<std::uint64_t>(step), out);
  }
  return out;
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == 0) return "localhost";
  std::string text = name;
  std::replace(text.begin(), text.end(), '/', '-');
  return text;
}

// The number in the name of an event file, 0 when there is none.
std::int64_t seconds_of(std::string_view name) {
  std::int64_t seconds = 0;
  name.remove_prefix(kNamePrefix.size());
  std::from_chars(name.data(), name.data() + name.size(), seconds);
  return seconds;
}

}  // namespace

std::string version_record(double wall_time) {
  std::string data = event(wall_time, 0);
  append_bytes(3, "brain.Event:2", data);
  return record(data);
}

std::string scalars_record(double wall_time, Index step, std::span<const EventScalar> scalars) {
  std::string summary;
  for (const EventScalar& scalar : scalars) {
    std::string value;
    append_bytes(1, scalar.tag, value);
    append_key(2, Wire::fixed32, value);
    append_little_endian(std::bit_cast<std::uint32_t>(scalar.value), value);
    append_bytes(1, value, summary);
  }
  std::string data = event(wall_time, step);
  append_bytes(5, summary, data);
  return record(data);
}

std::string restart_record(double wall_time, Index step) {
  std::string session;
  append_key(1, Wire::varint, session);
  append_varint(1, session);
  std::string data = event(wall_time, step);
  append_bytes(7, session, data);
  return record(data);
}

bool is_event_file(std::string_view name) { return name.starts_with(kNamePrefix); }

std::string event_file_name(const std::string& folder, double unix_time) {
  auto seconds = static_cast<std::int64_t>(unix_time);
  for (const std::string& name : list_directory(folder)) {
    if (is_event_file(name)) seconds = std::max(seconds, seconds_of(name) + 1);
  }
  return fmt::format("{}{}.{}", kNamePrefix, seconds, host_name());
}

EventFile::EventFile(const std::string& folder, Index last_step) {
  const double now = unix_seconds();
  try {
    const std::string path = join_path(folder, event_file_name(folder, now));
    writer_ = std::make_unique<FileWriter>(path, "tensorboard");
  } catch (const Error& error) {
    log_error(error.message() + "; training goes on without TensorBoard events");
    return;
  }
  append(version_record(now));
  if (last_step > 0) append(restart_record(now, last_step + 1));
}

void EventFile::append(std::string_view record) {
  if (!writer_) return;
  try {
    writer_->write(record);
    writer_->flush();
  } catch (const Error& error) {
    log_error(error.message() + "; training goes on without TensorBoard events");
    writer_.reset();
  }
}

void EventFile::write(const StepMetrics& metrics) {
  if (!writer_) return;
  std::vector<EventScalar> scalars;
  for (const MetricField& field : metric_fields()) {
    if (const std::optional<double> value = field.value(metrics)) {
      scalars.push_back({std::string(field.tag), static_cast<float>(*value)});
    }
  }
  append(scalars_record(unix_seconds(), metrics.step, scalars));
}

}  // namespace zaya
