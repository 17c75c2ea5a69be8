// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <fmt/core.h>

#include <initializer_list>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "text/tokenizer_cache.h"
#include "text/tokenizer_file.h"
#include "text/unicode.h"

namespace zaya {

namespace {

// Names in use by the known families, in the order in which they are tried.
constexpr std::string_view kBosNames[] = {"<bos>", "<s>", "<|begin_of_text|>", "<|startoftext|>",
                                          "<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>"};
constexpr std::string_view kEosNames[] = {"<|endoftext|>", "<|end_of_text|>", "<eos>", "</s>",
                                          "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};
constexpr std::string_view kPadNames[] = {"<pad>", "<|padding|>", "<|finetune_right_pad_id|>",
                                          "<\uFF5C\u2581pad\u2581\uFF5C>"};

constexpr std::size_t kLongestText = (std::size_t{1} << 32) - 1;

}  // namespace

struct Tokenizer::State {
  std::string path;
  Hash128 digest;
  std::unique_ptr<const TokenizerModel> model;
  TokenizerSettings settings;
  std::optional<TokenId> bos, eos, pad;
  AroundRule around_rule = AroundRule::none;
  std::vector<TokenId> before, after;
  // Encoders that no call is using; guarded by `idle_lock`.
  std::mutex idle_lock;
  std::vector<Encoder> idle;

  std::optional<TokenId> named(const std::optional<std::string>& content, std::string_view role,
                               bool has_config, std::span<const std::string_view> names) const;
  void settle(bool has_config);
};

std::optional<TokenId> Tokenizer::State::named(const std::optional<std::string>& content,
                                               std::string_view role, bool has_config,
                                               std::span<const std::string_view> names) const {
  if (content) {
    const std::optional<TokenId> id = model->find(*content);
    if (!id) {
      log_warning(fmt::format("{}: {} {} of tokenizer_config.json is not a token", path, role,
                              json_quote(*content)));
    }
    return id;
  }
  if (has_config) return std::nullopt;
  for (const std::string_view name : names) {
    if (const std::optional<TokenId> id = model->find(name)) return id;
  }
  return std::nullopt;
}

void Tokenizer::State::settle(bool has_config) {
  if (!model->warning.empty()) log_warning(model->warning);
  bos = named(settings.bos, "bos_token", has_config, kBosNames);
  eos = named(settings.eos, "eos_token", has_config, kEosNames);
  pad = named(settings.pad, "pad_token", has_config, kPadNames);
  if (model->post_template.is_present) {
    around_rule = AroundRule::from_template;
    before = model->post_template.before;
    after = model->post_template.after;
  } else if (settings.adds_bos && bos) {
    around_rule = AroundRule::add_bos_token;
    before = {*bos};
  }
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

namespace {

std::string file_of(const std::string& path) {
  return is_directory(path) ? join_path(path, "tokenizer.json") : path;
}

}  // namespace

Hash128 Tokenizer::digest_of_file(const std::string& path) {
  return hash128(MappedFile(file_of(path)).bytes());
}

Tokenizer Tokenizer::load(const std::string& path) {
  const std::string file = file_of(path);
  const std::string config_file = join_path(directory_name(file), "tokenizer_config.json");
  const MappedFile json(file);
  check_tokenizer_size(json.text().size(), file);
  const bool has_config = is_file(config_file);
  const std::string config = has_config ? read_file(config_file) : std::string();
  const bool is_cached = json.text().size() >= kLeastCachedBytes;
  auto state = std::make_unique<State>();
  state->path = file;
  json.populate();
  state->digest = hash128(json.bytes());
  if (is_cached) state->model = read_tokenizer_cache(file, state->digest);
  if (!state->model) {
    state->model = read_tokenizer_model(json.text(), file);
    if (is_cached) write_tokenizer_cache(file, *state->model, state->digest);
  }
  if (has_config) state->settings = read_tokenizer_settings(config, config_file);
  const std::string chat_file = join_path(directory_name(file), "chat_template.jinja");
  if (state->settings.chat_template.empty() && is_file(chat_file)) {
    state->settings.chat_template = read_file(chat_file);
  }
  state->settle(has_config);
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::from_memory(std::string_view json, const std::string& where,
                                 std::string_view config) {
  auto state = std::make_unique<State>();
  state->path = where;
  state->digest = hash128(json);
  state->model = read_tokenizer_model(json, where);
  if (!config.empty()) {
    state->settings = read_tokenizer_settings(config, where + ": tokenizer_config.json");
  }
  state->settle(!config.empty());
  return Tokenizer(std::move(state));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::optional<Encoder> encoder;
  {
    const std::lock_guard lock(state_->idle_lock);
    if (!state_->idle.empty()) {
      encoder = std::move(state_->idle.back());
      state_->idle.pop_back();
    }
  }
  if (!encoder) encoder.emplace(*this);
  std::vector<TokenId> ids;
  encoder->encode(text, options, ids);
  const std::lock_guard lock(state_->idle_lock);
  state_->idle.push_back(std::move(*encoder));
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  const TokenizerModel& model = *state_->model;
  std::vector<std::string> contents;
  contents.reserve(ids.size());
  for (const TokenId id : ids) {
    const std::optional<std::string_view> content = model.content(id);
    if (!content) {
      if (options.is_lenient) continue;
      throw Error{ErrorKind::usage, fmt::format("{}: no token has the id {} (the largest is {})",
                                                state_->path, id, vocabulary_size() - 1)};
    }
    if (!options.skip_special || !is_special(id)) contents.emplace_back(*content);
  }
  return model.decoder.decode(std::move(contents));
}

Index Tokenizer::vocabulary_size() const { return state_->model->id_end(); }

std::optional<TokenId> Tokenizer::id_of(std::string_view content) const {
  return state_->model->find(content);
}

std::optional<std::string_view> Tokenizer::content_of(TokenId id) const {
  return state_->model->content(id);
}

bool Tokenizer::is_special(TokenId id) const {
  const AddedToken* token = state_->model->added_tokens.find(id);
  return token != nullptr && token->is_special;
}

std::vector<std::string> Tokenizer::special_tokens() const {
  std::vector<std::string> contents;
  for (const AddedToken& token : state_->model->added_tokens.tokens()) {
    if (token.is_special) contents.push_back(token.content);
  }
  return contents;
}

std::optional<TokenId> Tokenizer::bos() const { return state_->bos; }
std::optional<TokenId> Tokenizer::eos() const { return state_->eos; }
std::optional<TokenId> Tokenizer::pad() const { return state_->pad; }
const std::string& Tokenizer::chat_template() const { return state_->settings.chat_template; }
Tokenizer::AroundRule Tokenizer::around_rule() const { return state_->around_rule; }
std::span<const TokenId> Tokenizer::ids_before() const { return state_->before; }
std::span<const TokenId> Tokenizer::ids_after() const { return state_->after; }
Hash128 Tokenizer::digest() const { return state_->digest; }
const std::string& Tokenizer::path() const { return state_->path; }
const TokenizerModel& Tokenizer::model() const { return *state_->model; }

struct Encoder::Scratch {
  std::string valid_text;
  std::vector<TextSlice> slices, inner_slices;
  NormalizeScratch normalize;
  PreTokenizeScratch pretokenize;
  RegexScratch regex;
  BpeScratch bpe;
};

Encoder::Encoder(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer.state_.get()), scratch_(std::make_unique<Scratch>()) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

void Encoder::encode(std::string_view text, EncodeOptions options, std::vector<TokenId>& out) {
  if (text.size() > kLongestText) {
    throw Error{ErrorKind::usage, fmt::format("a text of {} bytes is too long for one document "
                                              "(limit 4 GiB): split it",
                                              text.size())};
  }
  if (!is_valid_utf8(text)) {
    scratch_->valid_text.clear();
    append_valid_utf8(text, scratch_->valid_text);
    text = scratch_->valid_text;
  }
  if (options.add_special) {
    out.insert(out.end(), tokenizer_->before.begin(), tokenizer_->before.end());
  }
  std::vector<TextSlice>& slices = scratch_->slices;
  slices.clear();
  tokenizer_->model->added_tokens.split(text, false, options.no_special_in_text, slices);
  for (const TextSlice& slice : slices) {
    if (slice.token) {
      out.push_back(*slice.token);
    } else {
      encode_slice(text.substr(slice.begin, slice.end - slice.begin), slice.begin == 0, options,
                   out);
    }
  }
  if (options.add_special) {
    out.insert(out.end(), tokenizer_->after.begin(), tokenizer_->after.end());
  }
}

void Encoder::encode_slice(std::string_view text, bool is_start, EncodeOptions options,
                           std::vector<TokenId>& out) {
  const TokenizerModel& model = *tokenizer_->model;
  text = model.normalizer.apply(text, scratch_->normalize, scratch_->regex);
  if (!model.added_tokens.has_normalized()) return encode_part(text, is_start, out);
  std::vector<TextSlice>& slices = scratch_->inner_slices;
  slices.clear();
  model.added_tokens.split(text, true, options.no_special_in_text, slices);
  for (const TextSlice& slice : slices) {
    if (slice.token) {
      out.push_back(*slice.token);
    } else {
      encode_part(text.substr(slice.begin, slice.end - slice.begin), is_start && slice.begin == 0,
                  out);
    }
  }
}

void Encoder::encode_part(std::string_view text, bool is_start, std::vector<TokenId>& out) {
  const TokenizerModel& model = *tokenizer_->model;
  const PreTokenizer::Result result =
      model.pre_tokenizer.apply(text, is_start, scratch_->pretokenize, scratch_->regex);
  for (const Part part : result.parts) {
    model.bpe->encode(result.text.substr(part.begin, part.end - part.begin), scratch_->bpe, out);
  }
}

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
// Longer runs without certain text are let go: no character has so many tokens.
constexpr std::size_t kMostPending = 64;

}  // namespace

// The text of the ids behind num_emitted_, seen behind those before it.
std::string StreamDecoder::pending_text() const {
  const std::span<const TokenId> ids(ids_);
  const std::string before = tokenizer_.decode(ids.first(num_emitted_), options_);
  std::string all = tokenizer_.decode(ids, options_);
  // A run of byte tokens can spoil what went out already: then the new ones speak for themselves.
  if (!all.starts_with(before)) return tokenizer_.decode(ids.subspan(num_emitted_), options_);
  return all.substr(before.size());
}

std::string StreamDecoder::take() {
  std::string text = pending_text();
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(num_emitted_));
  num_emitted_ = ids_.size();
  return text;
}

std::string StreamDecoder::push(TokenId id) {
  ids_.push_back(id);
  const std::string text = pending_text();
  const bool is_certain = !text.empty() && !text.ends_with(kReplacement);
  if (!is_certain && ids_.size() - num_emitted_ < kMostPending) return {};
  return take();
}

std::string StreamDecoder::finish() {
  std::string text = pending_text();
  ids_.clear();
  num_emitted_ = 0;
  return text;
}

}  // namespace zaya
