// SPDX-License-Identifier: Apache-2.0
//
// Lines of JSONL. Any bytes are refused, or give a text that is UTF-8. What the strict parser
// takes, the lenient one takes too, unchanged.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "data/jsonl.h"
#include "data/line_reader.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  bytes.resize(size + zaya::LineReader::kPaddingBytes);
  const std::string_view line(bytes.data(), size);
  zaya::JsonlParser strict("text", false), lenient("text", true);
  std::string text, lenient_text;
  const bool is_good = strict.parse(line, text).empty();
  const bool is_taken = lenient.parse(line, lenient_text).empty();
  ZAYA_CHECK(!is_good || zaya::is_valid_utf8(text));
  ZAYA_CHECK(!is_taken || zaya::is_valid_utf8(lenient_text));
  if (is_good) ZAYA_CHECK(is_taken && text == lenient_text && !lenient.was_repaired());
  return 0;
}
