// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer cache from anywhere, with a head that fits and without: any bytes give a model or an
// Error, and a model encodes and looks up whatever it is given.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "text/tokenizer_cache.h"
#include "text/unicode.h"

namespace zaya {
namespace {

constexpr Hash128 kSource{1, 2};

void use(std::string_view bytes) {
  std::unique_ptr<const TokenizerModel> model;
  try {
    model = decode_tokenizer_cache(bytes, kSource, "input");
  } catch (const Error&) {
    return;
  }
  BpeScratch scratch;
  std::vector<TokenId> ids;
  model->bpe->encode(" then in the e\xCC\x81 \xE2\x96\x81 \xF0\x9F\x98\x80", scratch, ids);
  std::vector<std::string> contents;
  for (const TokenId id : ids) {
    ZAYA_CHECK(id >= 0 && id < model->id_end());
    const std::optional<std::string_view> content = model->content(id);
    // An id that is made stands for something.
    ZAYA_CHECK(content.has_value() && is_valid_utf8(*content));
    contents.emplace_back(*content);
  }
  ZAYA_CHECK(is_valid_utf8(model->decoder.decode(contents)));
  static_cast<void>(model->find("the"));
  ZAYA_CHECK(!encode_tokenizer_cache(*model, kSource).empty());
}

}  // namespace
}  // namespace zaya

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  zaya::set_log_level(zaya::LogLevel::error);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  zaya::use(bytes);
  zaya::use(zaya::seal_tokenizer_cache(bytes, zaya::kSource));
  return 0;
}
