// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_file.h"

#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "text/post_process.h"
#include "text/unicode.h"

namespace zaya {

namespace {

using simdjson::dom::element;

constexpr std::size_t kMaxDepth = 64;

[[noreturn]] void damaged(const std::string& where, std::string_view problem) {
  throw Error{ErrorKind::damaged, fmt::format("{}: {}", where, problem)};
}

// For messages: at most some 60 bytes.
std::string shown(std::string_view text) {
  constexpr std::size_t kLimit = 60;
  if (text.size() <= kLimit) return json_quote(text);
  const std::string_view head = text.substr(0, kLimit);
  return json_quote(head.substr(0, valid_utf8_length(head))) + "...";
}

// The text of a string; simdjson lets single surrogates through.
std::string_view checked_text(const element& value, const std::string& where) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) damaged(where, "expected a string");
  if (!is_valid_utf8(text)) damaged(where, "a string with half a surrogate pair");
  return text;
}

TokenId checked_id(std::int64_t id, const std::string& where) {
  if (id < 0 || id >= Vocabulary::kIdLimit) {
    damaged(where, fmt::format("id {} is outside of 0 to {}", id, Vocabulary::kIdLimit - 1));
  }
  return static_cast<TokenId>(id);
}

void read_vocabulary(const element& json, const std::string& where, Vocabulary& vocabulary) {
  simdjson::dom::object object;
  if (json.get(object) != simdjson::SUCCESS) damaged(where, "expected an object");
  vocabulary.reserve(object.size(), 0);
  for (const auto field : object) {
    std::int64_t id = 0;
    if (!is_valid_utf8(field.key)) damaged(where, "a token with half a surrogate pair");
    if (field.value.get(id) != simdjson::SUCCESS) {
      damaged(where, fmt::format("the id of {} is not an integer", shown(field.key)));
    }
    switch (vocabulary.add(field.key, checked_id(id, where))) {
      case Vocabulary::Added::yes: break;
      case Vocabulary::Added::same_content:
        damaged(where, fmt::format("token {} is given twice", shown(field.key)));
      case Vocabulary::Added::same_id:
        damaged(where, fmt::format("id {} is given to two tokens", id));
    }
  }
}

struct PairText {
  std::string_view left, right;
};

// "a b" or ["a", "b"].
PairText read_pair(const element& json, const std::string& where) {
  if (json.is_string()) {
    const std::string_view text = checked_text(json, where);
    const std::size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) {
      damaged(where, fmt::format("merge {} is not two tokens with one space between", shown(text)));
    }
    return {text.substr(0, space), text.substr(space + 1)};
  }
  simdjson::dom::array pair;
  if (json.get(pair) != simdjson::SUCCESS || pair.size() != 2) {
    damaged(where, "expected a string or a pair of strings");
  }
  return {checked_text(pair.at(0).value(), where), checked_text(pair.at(1).value(), where)};
}

MergeTable read_merges(const element& json, const std::string& where,
                       const Vocabulary& vocabulary) {
  simdjson::dom::array list;
  if (json.get(list) != simdjson::SUCCESS) damaged(where, "expected a list");
  // The count that the library states is capped, hence counted here.
  std::size_t count = 0;
  for ([[maybe_unused]] const element one : list) ++count;
  MergeTable merges(count);
  std::string product;
  std::uint32_t rank = 0;
  for (const element one : list) {
    const auto place = [&] { return fmt::format("{}[{}]", where, rank); };
    PairText pair;
    try {
      pair = read_pair(one, where);
    } catch (const Error& error) {
      // The number of the merge is worth a message, but not building a text for each of them.
      throw Error{error.kind(), fmt::format("{} (merge {})", error.message(), rank)};
    }
    const auto look_up = [&](std::string_view content) {
      if (content.empty()) damaged(place(), "a merge with an empty side");
      const std::optional<TokenId> id = vocabulary.find(content);
      if (!id) damaged(place(), fmt::format("{} is not in the vocabulary", shown(content)));
      return *id;
    };
    product.assign(pair.left).append(pair.right);
    const TokenId left = look_up(pair.left), right = look_up(pair.right);
    merges.set(left, right, {rank, look_up(product)});
    ++rank;
  }
  return merges;
}

BpeOptions read_model_settings(const Json& json, const std::string& where) {
  const Component model(json, where);
  if (model.type() != "BPE") model.refuse("isn't a supported model (only BPE is)");
  model.allow({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
               "fuse_unk", "byte_fallback", "ignore_merges"});
  for (const std::string_view name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.text(name, "").empty()) model.refuse(fmt::format("with {} isn't supported", name));
  }
  if (const Json* dropout = json.find("dropout"); dropout != nullptr && !dropout->is_null()) {
    if (!dropout->is_number()) model.damaged("dropout: expected a number");
    if (dropout->as_real() != 0) model.refuse("with dropout isn't supported");
  }
  BpeOptions options;
  options.has_byte_fallback = model.flag("byte_fallback", false);
  options.fuses_unknown = model.flag("fuse_unk", false);
  options.ignores_merges = model.flag("ignore_merges", false);
  options.unknown = model.text("unk_token", "");
  return options;
}

AddedToken read_added_token(const Json& json, const std::string& where) {
  if (!json.is_object()) damaged(where, "expected an object");
  const auto member = [&](std::string_view name) -> const Json& {
    if (const Json* value = json.find(name)) return *value;
    damaged(where, fmt::format("member {} is missing", name));
  };
  const auto flag = [&](std::string_view name) {
    if (member(name).is_bool()) return member(name).as_bool();
    damaged(where, fmt::format("{}: expected true or false", name));
  };
  AddedToken token;
  if (!member("content").is_string()) damaged(where, "content: expected a string");
  if (!member("id").is_integer()) damaged(where, "id: expected an integer");
  token.content = member("content").as_string();
  token.id = checked_id(member("id").as_integer(), where);
  token.is_single_word = flag("single_word");
  token.strips_left = flag("lstrip");
  token.strips_right = flag("rstrip");
  token.is_normalized = flag("normalized");
  token.is_special = flag("special");
  return token;
}

std::vector<AddedToken> read_added_tokens(const Json& json, const std::string& where) {
  if (!json.is_array()) damaged(where, "expected a list");
  std::vector<AddedToken> tokens;
  for (std::size_t i = 0; i < json.items().size(); ++i) {
    tokens.push_back(read_added_token(json.items()[i], fmt::format("{}[{}]", where, i)));
  }
  return tokens;
}

// Ids: that of the content in the vocabulary if it is there, else the stated one. The library
// numbers tokens outside of the vocabulary itself, in order; a file that says otherwise is told.
std::vector<AddedToken> settled(std::vector<AddedToken> stated, const std::string& where,
                                const Vocabulary& vocabulary, std::string& warning) {
  std::vector<AddedToken> tokens;
  Vocabulary contents;
  Index next_free = vocabulary.size();
  for (std::size_t i = 0; i < stated.size(); ++i) {
    const auto place = [&] { return fmt::format("{}[{}]", where, i); };
    AddedToken& token = stated[i];
    if (token.content.empty()) continue;
    const std::optional<TokenId> known = vocabulary.find(token.content);
    const Index expected = known ? *known : next_free;
    if (expected != token.id && warning.empty()) {
      warning = fmt::format("{}: {} has the id {} here, the Hugging Face library gives it {}",
                            place(), shown(token.content), token.id, expected);
    }
    if (known) {
      token.id = *known;
    } else if (vocabulary.has(token.id)) {
      damaged(place(), fmt::format("id {} belongs to another token", token.id));
    }
    next_free = std::max<Index>(next_free, Index{token.id} + 1);
    switch (contents.add(token.content, token.id)) {
      case Vocabulary::Added::yes: tokens.push_back(std::move(token)); break;
      case Vocabulary::Added::same_content:
        damaged(place(), fmt::format("token {} is given twice", shown(token.content)));
      case Vocabulary::Added::same_id:
        damaged(place(), fmt::format("id {} is given to two tokens", token.id));
    }
  }
  return tokens;
}

// The file's members apart: the large tables as they are, everything else as Json.
struct Members {
  Json components = Json::object(), added_tokens;
  element vocabulary, merges;
};

Json to_json(const element& value, const std::string& where) {
  return Json::parse(simdjson::minify(value), where);
}

void read_model_members(const element& json, const std::string& where, Members& members) {
  simdjson::dom::object model;
  if (json.get(model) != simdjson::SUCCESS) damaged(where, "expected an object");
  Json settings = Json::object();
  bool has_vocabulary = false, has_merges = false;
  for (const auto field : model) {
    bool is_again = false;
    if (field.key == "vocab") {
      is_again = std::exchange(has_vocabulary, true);
      members.vocabulary = field.value;
    } else if (field.key == "merges") {
      is_again = std::exchange(has_merges, true);
      members.merges = field.value;
    } else {
      is_again = settings.find(field.key) != nullptr;
      settings.set(field.key, to_json(field.value, where));
    }
    if (is_again) damaged(where, fmt::format("member {} is given twice", shown(field.key)));
  }
  // Other models lack some of these: say which model it is rather than what it lacks.
  read_model_settings(settings, where);
  if (!has_vocabulary) damaged(where, "member \"vocab\" is missing");
  if (!has_merges) damaged(where, "member \"merges\" is missing");
  members.components.set("model", std::move(settings));
}

Members read_members(const element& json, const std::string& where) {
  simdjson::dom::object file;
  if (json.get(file) != simdjson::SUCCESS) damaged(where, "expected an object");
  Members members;
  for (const auto field : file) {
    const std::string place = fmt::format("{}: {}", where, field.key);
    const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
      return std::find(names.begin(), names.end(), field.key) != names.end();
    };
    if (members.components.find(field.key) != nullptr ||
        (field.key == "added_tokens" && !members.added_tokens.is_null())) {
      damaged(where, fmt::format("member {} is given twice", shown(field.key)));
    }
    if (field.key == "model") {
      read_model_members(field.value, place, members);
    } else if (field.key == "added_tokens") {
      members.added_tokens = to_json(field.value, place);
      if (!members.added_tokens.is_array()) damaged(place, "expected a list");
    } else if (is_one_of({"version", "normalizer", "pre_tokenizer", "post_processor", "decoder"})) {
      members.components.set(field.key, to_json(field.value, place));
    } else if (is_one_of({"truncation", "padding"}) && !field.value.is_null()) {
      log_debug(fmt::format("{} is ignored", place));
    }
  }
  const Json* version = members.components.find("version");
  if (version == nullptr || !version->is_string() || version->as_string() != "1.0") {
    damaged(where, "version is not \"1.0\": is this a tokenizer.json?");
  }
  if (members.components.find("model") == nullptr) damaged(where, "member \"model\" is missing");
  return members;
}

Json component_or_null(const Json& components, std::string_view name) {
  const Json* component = components.find(name);
  return component == nullptr ? Json{} : *component;
}

std::vector<std::string> normalized_contents(const std::vector<AddedToken>& tokens,
                                             const Normalizer& normalizer) {
  NormalizeScratch scratch;
  RegexScratch regex;
  std::vector<std::string> contents;
  for (const AddedToken& token : tokens) {
    contents.emplace_back(token.is_normalized ? normalizer.apply(token.content, scratch, regex)
                                              : token.content);
  }
  return contents;
}

std::string place_of(const std::string& where, std::string_view member) {
  return fmt::format("{}: {}", where, member);
}

}  // namespace

void read_steps(const std::string& where, TokenizerModel& model) {
  const auto component = [&](std::string_view name) {
    return component_or_null(model.components, name);
  };
  model.normalizer = Normalizer(component("normalizer"), place_of(where, "normalizer"));
  model.pre_tokenizer = PreTokenizer(component("pre_tokenizer"), place_of(where, "pre_tokenizer"));
  model.decoder = Decoder(component("decoder"), place_of(where, "decoder"));
}

BpeOptions read_bpe_options(const std::string& where, const TokenizerModel& model) {
  BpeOptions options = read_model_settings(model.components.at("model"), place_of(where, "model"));
  options.is_byte_level = model.pre_tokenizer.is_byte_level();
  return options;
}

void set_added_tokens(std::vector<AddedToken> tokens, const std::string& where,
                      TokenizerModel& model) {
  tokens =
      settled(std::move(tokens), place_of(where, "added_tokens"), model.vocabulary, model.warning);
  const std::vector<std::string> contents = normalized_contents(tokens, model.normalizer);
  model.added_tokens = AddedTokens(std::move(tokens), contents);
}

void read_template(const std::string& where, TokenizerModel& model) {
  const std::string place = place_of(where, "post_processor");
  model.post_template =
      read_post_processor(component_or_null(model.components, "post_processor"), place);
  for (const std::vector<TokenId>* ids :
       {&model.post_template.before, &model.post_template.after}) {
    for (const TokenId id : *ids) {
      if (!model.content(id)) damaged(place, fmt::format("no token has the id {}", id));
    }
  }
}

void check_tokenizer_size(std::size_t num_bytes, const std::string& where) {
  if (num_bytes <= kMostTokenizerBytes) return;
  damaged(where, fmt::format("has {} bytes; more than {} are no tokenizer.json", num_bytes,
                             kMostTokenizerBytes));
}

std::unique_ptr<const TokenizerModel> read_tokenizer_model(std::string_view json,
                                                           const std::string& where) {
  check_tokenizer_size(json.size(), where);
  simdjson::dom::parser parser;
  element root;
  simdjson::error_code error = parser.allocate(std::max<std::size_t>(json.size(), 64), kMaxDepth);
  if (error == simdjson::SUCCESS) {
    error = parser.parse(json.data(), json.size(), /*realloc_if_needed=*/true).get(root);
  }
  if (error != simdjson::SUCCESS) {
    damaged(where, fmt::format("not valid JSON: {}", simdjson::error_message(error)));
  }
  Members members = read_members(root, where);
  auto model = std::make_unique<TokenizerModel>();
  model->components = std::move(members.components);
  read_vocabulary(members.vocabulary, place_of(where, "model.vocab"), model->vocabulary);
  read_steps(where, *model);
  MergeTable merges =
      read_merges(members.merges, place_of(where, "model.merges"), model->vocabulary);
  model->bpe.emplace(model->vocabulary, std::move(merges), read_bpe_options(where, *model),
                     place_of(where, "model"));
  if (!members.added_tokens.is_null()) {
    set_added_tokens(read_added_tokens(members.added_tokens, place_of(where, "added_tokens")),
                     where, *model);
  }
  read_template(where, *model);
  return model;
}

std::optional<std::string_view> TokenizerModel::content(TokenId id) const {
  if (const AddedToken* token = added_tokens.find(id)) return token->content;
  if (vocabulary.has(id)) return vocabulary.content(id);
  return std::nullopt;
}

std::optional<TokenId> TokenizerModel::find(std::string_view content) const {
  if (const AddedToken* token = added_tokens.find(content)) return token->id;
  return vocabulary.find(content);
}

TokenId TokenizerModel::id_end() const {
  TokenId end = vocabulary.id_end();
  for (const AddedToken& token : added_tokens.tokens()) end = std::max(end, token.id + 1);
  return end;
}

TokenizerSettings read_tokenizer_settings(std::string_view json, const std::string& where) {
  const Json file = Json::parse(json, where);
  if (!file.is_object()) damaged(where, "expected an object");
  // A token is its content, or an object that has it.
  const auto token = [&](std::string_view name) -> std::optional<std::string> {
    const Json* value = file.find(name);
    if (value == nullptr || value->is_null()) return std::nullopt;
    if (value->is_object()) value = value->find("content");
    if (value == nullptr || !value->is_string()) {
      damaged(where, fmt::format("{}: expected a string or an object with a content", name));
    }
    return value->as_string();
  };
  TokenizerSettings settings;
  settings.bos = token("bos_token");
  settings.eos = token("eos_token");
  settings.pad = token("pad_token");
  if (const Json* flag = file.find("add_bos_token"); flag != nullptr && !flag->is_null()) {
    if (!flag->is_bool()) damaged(where, "add_bos_token: expected true or false");
    settings.adds_bos = flag->as_bool();
  }
  // Some files hold a list of named templates; those are not for us.
  if (const Json* text = file.find("chat_template"); text != nullptr && text->is_string()) {
    settings.chat_template = text->as_string();
  }
  return settings;
}

}  // namespace zaya
