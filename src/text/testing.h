// SPDX-License-Identifier: Apache-2.0
//
// Small tokenizers for tests, written as the JSON of tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace zaya {

struct TestTokenizer {
  std::string normalizer = "null", pre_tokenizer = "null", post_processor = "null",
              decoder = "null", added_tokens = "[]", model_members;
  std::vector<std::string> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;

  std::string json() const {
    std::string out = R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)" +
                      added_tokens + R"(,"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" +
                      pre_tokenizer + R"(,"post_processor":)" + post_processor + R"(,"decoder":)" +
                      decoder + R"(,"model":{"type":"BPE",)" + model_members + R"("vocab":{)";
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
      out += (i > 0 ? "," : "") + json_quote(vocabulary[i]) + ":" + std::to_string(i);
    }
    out += R"(},"merges":[)";
    for (std::size_t i = 0; i < merges.size(); ++i) {
      out += (i > 0 ? ",[" : "[") + json_quote(merges[i].first) + "," +
             json_quote(merges[i].second) + "]";
    }
    return out + "]}}";
  }
  Tokenizer load() const { return Tokenizer::from_memory(json(), "t"); }
};

// A byte-level tokenizer without merges: ids are bytes.
inline TestTokenizer byte_tokenizer() {
  TestTokenizer t;
  t.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
  t.decoder = R"({"type":"ByteLevel"})";
  for (int byte = 0; byte < 256; ++byte) {
    t.vocabulary.push_back(to_utf8(byte_letter(static_cast<unsigned char>(byte))));
  }
  return t;
}

// Contents of the tokens of a text.
inline std::vector<std::string> tokens_of(const Tokenizer& tokenizer, std::string_view text,
                                          EncodeOptions options = {}) {
  std::vector<std::string> contents;
  for (const TokenId id : tokenizer.encode(text, options)) {
    contents.emplace_back(*tokenizer.content_of(id));
  }
  return contents;
}

using Strings = std::vector<std::string>;

}  // namespace zaya
