// SPDX-License-Identifier: Apache-2.0
//
// tokenizer.json from anywhere: any bytes give a tokenizer or an Error. A tokenizer encodes and
// decodes whatever it is given, and what it puts out can be decoded.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace zaya {
namespace {

void use(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids;
  try {
    ids = tokenizer.encode(text, {.add_special = true});
  } catch (const Error&) {
    // A pattern of the file may need too many steps.
    return;
  }
  for (const TokenId id : ids) ZAYA_CHECK(id >= 0 && id < tokenizer.vocabulary_size());
  // An Error here is a finding: every id that is made stands for something.
  ZAYA_CHECK(is_valid_utf8(tokenizer.decode(ids)));
  StreamDecoder decoder(tokenizer, {.skip_special = true});
  std::string streamed;
  for (const TokenId id : ids) streamed += decoder.push(id);
  streamed += decoder.finish();
  ZAYA_CHECK(is_valid_utf8(streamed));
}

}  // namespace
}  // namespace zaya

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  zaya::set_log_level(zaya::LogLevel::error);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::optional<zaya::Tokenizer> tokenizer;
  try {
    tokenizer.emplace(zaya::Tokenizer::from_memory(bytes, "input"));
  } catch (const zaya::Error&) {
    return 0;
  }
  zaya::use(*tokenizer, " a ab  abc\n\n<s> e\xCC\x81 \xE2\x96\x81 \xF0\x9F\x98\x80\xFF 123");
  zaya::use(*tokenizer, bytes.substr(0, 300));
  return 0;
}
