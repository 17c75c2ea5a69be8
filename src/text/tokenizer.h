// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer as users bring it (tokenizer.json): text -> ids and back, with the ids that the
// Hugging Face library gives.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/types.h"
#include "text/vocabulary.h"

namespace zaya {

class Json;
struct TokenizerModel;
struct TokenizerSettings;

struct EncodeOptions {
  bool add_special = false;         // with the template's ids around the text
  bool no_special_in_text = false;  // special tokens in the text are text: for untrusted input
};

struct DecodeOptions {
  bool skip_special = false;  // leaves out special tokens
  bool is_lenient = false;    // leaves out ids that stand for nothing, which is an error otherwise
};

class Encoder;

// Immutable; any number of threads may use it at once.
class Tokenizer {
 public:
  // `path` is a tokenizer.json or a folder that holds one. tokenizer_config.json beside it is read
  // when it is there. Throws Error: damaged, or usage for components that are not supported.
  static Tokenizer load(const std::string& path);
  // What load(path).digest() would be, without the loading.
  static Hash128 digest_of_file(const std::string& path);
  // From the bytes of the two files (an empty config: none); `where` begins messages.
  static Tokenizer from_memory(std::string_view json, const std::string& where,
                               std::string_view config = {});
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Text that is not UTF-8 is read with U+FFFD for each bad part. A loop over many texts is faster
  // with an Encoder of its own per thread; these keep a few of them for all.
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;
  // Throws Error{usage} for an id that stands for nothing.
  std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  // Largest id + 1.
  Index vocabulary_size() const;
  std::optional<TokenId> id_of(std::string_view content) const;
  // Content of an id as the file has it (byte-level tokens in byte letters).
  std::optional<std::string_view> content_of(TokenId id) const;
  bool is_special(TokenId id) const;

  // From tokenizer_config.json; without that file the first well-known name that is a token.
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> pad() const;
  // Contents of all special tokens, in the order of the file.
  std::vector<std::string> special_tokens() const;
  // From tokenizer_config.json, or chat_template.jinja beside it; empty when there is none.
  const std::string& chat_template() const;

  // Ids put around a text with add_special: by the template of tokenizer.json if it has one, else
  // BOS if tokenizer_config.json says add_bos_token.
  enum class AroundRule { none, from_template, add_bos_token };
  AroundRule around_rule() const;
  std::span<const TokenId> ids_before() const;
  std::span<const TokenId> ids_after() const;

  // XXH3-128 of the bytes of tokenizer.json.
  Hash128 digest() const;
  const std::string& path() const;
  const TokenizerModel& model() const;

 private:
  friend class Encoder;
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Encodes on one thread; keeps a cache and working memory between calls (some 3 MB). The tokenizer
// must outlive it; moving the tokenizer is fine.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer);
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  // Appends the ids of a text below 4 GiB. What was encoded before never changes the result.
  void encode(std::string_view text, EncodeOptions options, std::vector<TokenId>& out);

 private:
  struct Scratch;

  void encode_slice(std::string_view text, bool is_start, EncodeOptions options,
                    std::vector<TokenId>& out);
  void encode_part(std::string_view text, bool is_start, std::vector<TokenId>& out);

  const Tokenizer::State* tokenizer_;
  std::unique_ptr<Scratch> scratch_;
};

// Decodes ids one by one, as a model makes them: text comes as soon as it is complete. The
// tokenizer must outlive it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options = {})
      : tokenizer_(tokenizer), options_(options) {}

  // The text that became certain, often empty: half a character is held back.
  std::string push(TokenId id);
  // What was held back, with U+FFFD where it is not UTF-8. Begins anew.
  std::string finish();

 private:
  std::string pending_text() const;
  std::string take();

  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  // Ids in force: [0, num_emitted_) gave the text that went out last and are kept because their
  // neighbours may look different at the start of a text.
  std::vector<TokenId> ids_;
  std::size_t num_emitted_ = 0;
};

}  // namespace zaya
