// SPDX-License-Identifier: Apache-2.0
//
// Reads the Hugging Face form of a tokenizer, tokenizer.json, and the settings beside it,
// tokenizer_config.json. simdjson stays in tokenizer_file.cc.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/vocabulary.h"

namespace zaya {

// Ids that the post-processor puts around a text.
struct Template {
  bool is_present = false;
  std::vector<TokenId> before, after;
};

// All that tokenizer.json says. Immutable once read; `bpe` refers to `vocabulary`.
struct TokenizerModel {
  Vocabulary vocabulary;
  std::optional<Bpe> bpe;  // always there after reading
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  AddedTokens added_tokens;
  Template post_template;
  Decoder decoder;
  // The members of the file that are components, without added tokens, and the model's settings
  // without its tables.
  Json components;
  // What was surprising about the file; said once by whoever loads it. Often empty.
  std::string warning;

  // Content of an id, and id of a content; added tokens count first.
  std::optional<std::string_view> content(TokenId id) const;
  std::optional<TokenId> find(std::string_view content) const;
  // Largest id + 1.
  TokenId id_end() const;
};

// Larger files are refused before they are read; the largest known has 33 MB.
inline constexpr std::size_t kMostTokenizerBytes = std::size_t{1} << 30;
void check_tokenizer_size(std::size_t num_bytes, const std::string& where);

// `where` (a path) begins all messages. Throws Error{damaged} for a file that is not what the
// format says, Error{usage} for components that are not supported.
std::unique_ptr<const TokenizerModel> read_tokenizer_model(std::string_view json,
                                                           const std::string& where);

// The steps of reading that follow the tables, for the cache too. Each takes its part of
// `model.components` and throws as above. In this order, with `vocabulary` there from the start:
// normalizer, pre-tokenizer, decoder; settings of the model, for `bpe`; added tokens, whose ids are
// looked up in the vocabulary; the template around texts.
void read_steps(const std::string& where, TokenizerModel& model);
BpeOptions read_bpe_options(const std::string& where, const TokenizerModel& model);
void set_added_tokens(std::vector<AddedToken> tokens, const std::string& where,
                      TokenizerModel& model);
void read_template(const std::string& where, TokenizerModel& model);

// What tokenizer_config.json says, as far as it is used.
struct TokenizerSettings {
  std::optional<std::string> bos, eos, pad;
  bool adds_bos = false;
  std::string chat_template;
};
TokenizerSettings read_tokenizer_settings(std::string_view json, const std::string& where);

}  // namespace zaya
