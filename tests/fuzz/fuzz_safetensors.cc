// SPDX-License-Identifier: Apache-2.0
//
// Headers of safetensors files. Any bytes give a header or an Error; an accepted header is strict
// JSON, its tensors lie within the file, and the writer's form of it reads as the same tensors.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace zaya {
namespace {

void check_places(const SafetensorsHeader& header, std::uint64_t file_size) {
  ZAYA_CHECK(header.data_offset <= file_size);
  std::uint64_t at = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    ZAYA_CHECK(entry.begin == at && entry.end >= entry.begin);
    ZAYA_CHECK(num_bytes_of(entry.spec) == entry.end - entry.begin);
    ZAYA_CHECK(header.find(entry.spec.name) == &entry);
    at = entry.end;
  }
  ZAYA_CHECK(header.data_offset + at == file_size);
}

void check_round_trip(const SafetensorsHeader& header) {
  std::vector<TensorSpec> specs;
  for (const SafetensorsEntry& entry : header.entries) specs.push_back(entry.spec);
  // An Error here is a finding: what we read, we write and read again.
  const SafetensorsPlan plan = plan_safetensors(specs, header.metadata);
  const std::span<const std::byte> head =
      std::as_bytes(std::span(plan.head.data(), plan.head.size()));
  const SafetensorsHeader again = parse_safetensors(head, plan.file_size, "again");
  ZAYA_CHECK(again.entries.size() == specs.size());
  ZAYA_CHECK(again.metadata.size() == header.metadata.size());
  for (const TensorSpec& spec : specs) {
    const SafetensorsEntry* entry = again.find(spec.name);
    ZAYA_CHECK(entry != nullptr && entry->spec == spec);
  }
}

}  // namespace
}  // namespace zaya

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  zaya::SafetensorsHeader header;
  try {
    header = zaya::parse_safetensors(bytes, size, "input");
  } catch (const zaya::Error& error) {
    ZAYA_CHECK(error.kind() == zaya::ErrorKind::damaged);
    ZAYA_CHECK(error.message().find('\n') == std::string::npos);
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 8, header.data_offset - 8);
  static_cast<void>(zaya::Json::parse(text, "an accepted header"));
  zaya::check_places(header, size);
  zaya::check_round_trip(header);
  return 0;
}
