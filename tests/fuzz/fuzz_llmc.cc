// SPDX-License-Identifier: Apache-2.0
//
// Token shards and multiple-choice files of llm.c. Any bytes are refused, or hold exactly the
// tokens or examples that their header states.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "data/llmc_shard.h"

namespace zaya {
namespace {

void check_tokens(std::span<const std::byte> file, const LlmcHeader& header) {
  const IntegerFormat format{header.bytes_per_token(), false, false};
  for (Index i = 0; i < header.count; ++i) {
    ZAYA_CHECK(integer_at(format, file.data() + 1024, i) >= 0);
  }
}

void check_choices(std::span<const std::byte> file, const LlmcHeader& header) {
  LlmcChoices choices(file, "input");
  ChoiceExample example;
  Index count = 0;
  while (choices.next(example)) {
    ++count;
    ZAYA_CHECK(example.label >= 0);
    ZAYA_CHECK(example.label < static_cast<Index>(example.endings.size()));
  }
  ZAYA_CHECK(count == header.count);
}

}  // namespace
}  // namespace zaya

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  try {
    const zaya::LlmcHeader header = zaya::parse_llmc(file, "input");
    ZAYA_CHECK(zaya::is_llmc(file));
    header.has_tokens() ? zaya::check_tokens(file, header) : zaya::check_choices(file, header);
  } catch (const zaya::Error& error) {
    ZAYA_CHECK(error.kind() == zaya::ErrorKind::damaged);
  }
  return 0;
}
