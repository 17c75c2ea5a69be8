// SPDX-License-Identifier: Apache-2.0
//
// `zaya tokenizer encode`, `decode` and `inspect`: texts to ids and back, and what a file holds.
#include "app/cmd_tokenizer.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cli.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tokenizer_file.h"

namespace zaya {

namespace {

void put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string read_standard_input() {
  std::string text;
  std::string block(1 << 16, '\0');
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), stdin)) {
    text.append(block, 0, got);
  }
  if (std::ferror(stdin) != 0) throw Error{ErrorKind::hardware, "can't read standard input"};
  return text;
}

}  // namespace

void convert_lines(FunctionRef<std::string(const Json& object)> convert) {
  char* data = nullptr;
  std::size_t capacity = 0;
  Index number = 0;
  const auto release = [&data](void*) { std::free(data); };
  const std::unique_ptr<void, decltype(release)> owner(&capacity, release);
  for (ssize_t length; (length = getline(&data, &capacity, stdin)) >= 0;) {
    ++number;
    std::string_view line(data, static_cast<std::size_t>(length));
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string where = fmt::format("standard input:{}", number);
    const Json object = Json::parse(line, where);
    try {
      if (!object.is_object()) throw Error{ErrorKind::damaged, "expected an object"};
      put(convert(object) + "\n");
    } catch (const Error& error) {
      throw Error{error.kind(), fmt::format("{}: {}", where, error.message())};
    }
  }
  if (std::ferror(stdin) != 0) throw Error{ErrorKind::hardware, "can't read standard input"};
}

std::string ids_as_text(std::span<const TokenId> ids) {
  std::string text = "[";
  for (const TokenId id : ids) {
    if (text.size() > 1) text += ',';
    char digits[16];
    text.append(digits, std::to_chars(digits, digits + sizeof digits, id).ptr);
  }
  return text += ']';
}

Json ids_to_json(std::span<const TokenId> ids) {
  Json list = Json::array();
  for (const TokenId id : ids) list.push(Json(std::int64_t{id}));
  return list;
}

namespace {

int encode(Arguments arguments) {
  std::string path, text;
  bool is_jsonl = false, is_json = false;
  EncodeOptions options;
  Command command("tokenizer encode", "Turns texts into token ids.",
                  "zaya tokenizer encode --tokenizer tokenizer.json --text 'Once upon a time'");
  command.option("--tokenizer", path, "tokenizer.json, or the folder that holds it.", true);
  command.option("--text", text, "The text; standard input when left out.");
  command.flag("--jsonl", is_jsonl,
               "Reads {\"text\"} lines from standard input, writes {\"ids\"} lines.");
  command.flag("--add-special-tokens", options.add_special,
               "With the ids that the tokenizer puts around a text.");
  command.flag("--no-special-in-text", options.no_special_in_text,
               "Special tokens in the text are ordinary text (untrusted input).");
  command.flag("--json", is_json, "Prints ids and contents of the tokens as JSON.");
  if (!command.parse(arguments)) return 0;
  const bool has_text = command.given("--text");
  if (is_jsonl && (has_text || is_json)) {
    throw Error{ErrorKind::usage, "zaya tokenizer encode: --jsonl goes without --text and --json"};
  }
  const Tokenizer tokenizer = Tokenizer::load(path);
  if (is_jsonl) {
    Encoder encoder(tokenizer);
    std::vector<TokenId> ids;
    convert_lines([&](const Json& object) {
      ids.clear();
      encoder.encode(object.at("text").as_string(), options, ids);
      return fmt::format("{{\"ids\":{}}}", ids_as_text(ids));
    });
    return 0;
  }
  const std::vector<TokenId> ids =
      tokenizer.encode(has_text ? text : read_standard_input(), options);
  if (is_json) {
    Json contents = Json::array();
    for (const TokenId id : ids) contents.push(Json(tokenizer.content_of(id).value_or("")));
    Json result = Json::object();
    result.set("ids", ids_to_json(ids));
    result.set("tokens", std::move(contents));
    put(result.dump() + "\n");
    return 0;
  }
  std::string line;
  for (const TokenId id : ids) line += fmt::format("{}{}", line.empty() ? "" : " ", id);
  put(line + "\n");
  return 0;
}

TokenId checked_id(std::int64_t value) {
  if (value >= 0 && value < Vocabulary::kIdLimit) return static_cast<TokenId>(value);
  throw Error{ErrorKind::usage, fmt::format("{} can't be a token id", value)};
}

std::vector<TokenId> parse_ids(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  std::vector<TokenId> ids;
  while (true) {
    const std::size_t begin = text.find_first_not_of(kBetween);
    if (begin == text.npos) return ids;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kBetween));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) {
      throw Error{ErrorKind::usage, fmt::format("zaya tokenizer decode: {} is not a token id",
                                                json_quote(word.substr(0, 40)))};
    }
    ids.push_back(checked_id(value));
    text.remove_prefix(word.size());
  }
}

int decode(Arguments arguments) {
  std::string path, ids;
  bool is_jsonl = false;
  DecodeOptions options;
  Command command("tokenizer decode", "Turns token ids into text.",
                  "zaya tokenizer decode --tokenizer tokenizer.json --ids '12 345 6'");
  command.option("--tokenizer", path, "tokenizer.json, or the folder that holds it.", true);
  command.option("--ids", ids, "Ids between spaces or commas; standard input when left out.");
  command.flag("--jsonl", is_jsonl,
               "Reads {\"ids\"} lines from standard input, writes {\"text\"} lines.");
  command.flag("--skip-special-tokens", options.skip_special, "Leaves out special tokens.");
  command.flag("--lenient", options.is_lenient, "Leaves out ids that no token has.");
  if (!command.parse(arguments)) return 0;
  const bool has_ids = command.given("--ids");
  if (is_jsonl && has_ids) {
    throw Error{ErrorKind::usage, "zaya tokenizer decode: --jsonl goes without --ids"};
  }
  const Tokenizer tokenizer = Tokenizer::load(path);
  if (is_jsonl) {
    convert_lines([&](const Json& object) {
      std::vector<TokenId> list;
      for (const Json& id : object.at("ids").items()) list.push_back(checked_id(id.as_integer()));
      Json result = Json::object();
      result.set("text", tokenizer.decode(list, options));
      return result.dump();
    });
    return 0;
  }
  put(tokenizer.decode(parse_ids(has_ids ? ids : read_standard_input()), options) + "\n");
  return 0;
}

std::string_view around_rule_text(Tokenizer::AroundRule rule) {
  switch (rule) {
    case Tokenizer::AroundRule::none: return "none: no template, and no add_bos_token";
    case Tokenizer::AroundRule::from_template: return "template of tokenizer.json";
    case Tokenizer::AroundRule::add_bos_token: return "add_bos_token of tokenizer_config.json";
  }
  return "";
}

Json describe_token(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  if (!id) return {};
  Json token = Json::object();
  token.set("id", Json(std::int64_t{*id}));
  token.set("content", Json(tokenizer.content_of(*id).value_or("")));
  return token;
}

Json chat_template_name(const Tokenizer& tokenizer) {
  try {
    return Json(ChatTemplate::of(tokenizer).name());
  } catch (const Error&) {
    return {};  // none that is known, which is no error here
  }
}

Json describe_tokenizer(const Tokenizer& tokenizer) {
  const TokenizerModel& model = tokenizer.model();
  Json result = Json::object();
  result.set("path", tokenizer.path());
  result.set("digest", "xxh3-128:" + to_hex(tokenizer.digest()));
  result.set("vocabulary_size", Json(tokenizer.vocabulary_size()));
  result.set("model_tokens", Json(model.vocabulary.size()));
  result.set("merges", Json(static_cast<std::int64_t>(model.bpe->num_merges())));
  result.set("added_tokens", Json(static_cast<std::int64_t>(model.added_tokens.tokens().size())));
  const std::vector<std::string> specials = tokenizer.special_tokens();
  result.set("special_tokens", Json(static_cast<std::int64_t>(specials.size())));
  result.set("bos", describe_token(tokenizer, tokenizer.bos()));
  result.set("eos", describe_token(tokenizer, tokenizer.eos()));
  result.set("pad", describe_token(tokenizer, tokenizer.pad()));
  result.set("ids_before", ids_to_json(tokenizer.ids_before()));
  result.set("ids_after", ids_to_json(tokenizer.ids_after()));
  result.set("around_rule", Json(around_rule_text(tokenizer.around_rule())));
  result.set("has_chat_template", !tokenizer.chat_template().empty());
  result.set("chat_template", chat_template_name(tokenizer));
  for (const std::string_view name :
       {"model", "normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    const Json* component = model.components.find(name);
    result.set(name, component == nullptr ? Json{} : *component);
  }
  return result;
}

int inspect(Arguments arguments) {
  std::string path;
  bool is_json = false;
  Command command("tokenizer inspect", "Shows what a tokenizer consists of.",
                  "zaya tokenizer inspect --tokenizer tokenizer.json");
  command.option("--tokenizer", path, "tokenizer.json, or the folder that holds it.", true);
  command.flag("--json", is_json, "Prints one JSON object.");
  if (!command.parse(arguments)) return 0;
  const Tokenizer tokenizer = Tokenizer::load(path);
  const Json description = describe_tokenizer(tokenizer);
  if (is_json) {
    put(description.dump(2) + "\n");
    return 0;
  }
  std::string text;
  for (const auto& [name, value] : description.members()) {
    text += fmt::format("{:<18} {}\n", name, value.is_string() ? value.as_string() : value.dump());
  }
  constexpr std::size_t kMostShown = 20;
  const std::vector<std::string> specials = tokenizer.special_tokens();
  for (std::size_t i = 0; i < specials.size() && i < kMostShown; ++i) {
    text += fmt::format("special {:<10} {}\n", tokenizer.id_of(specials[i]).value_or(-1),
                        json_quote(specials[i]));
  }
  if (specials.size() > kMostShown) {
    text += fmt::format("special            and {} more\n", specials.size() - kMostShown);
  }
  put(text);
  return 0;
}

}  // namespace

int command_tokenizer(Arguments arguments) {
  const std::vector<std::string> verbs{"train", "encode", "decode", "chat", "inspect"};
  if (arguments.empty() || arguments[0] == "--help") {
    put("usage: zaya tokenizer train|encode|decode|chat|inspect [options]\n"
        "(zaya tokenizer encode --help explains one)\n");
    return arguments.empty() ? 2 : 0;
  }
  const std::string& verb = arguments[0];
  const Arguments rest = arguments.subspan(1);
  if (verb == "train") return command_tokenizer_train(rest);
  if (verb == "encode") return encode(rest);
  if (verb == "decode") return decode(rest);
  if (verb == "chat") return command_tokenizer_chat(rest);
  if (verb == "inspect") return inspect(rest);
  throw Error{ErrorKind::usage,
              fmt::format("zaya tokenizer: unknown verb {}{} (see zaya tokenizer --help)", verb,
                          did_you_mean(verb, verbs))};
}

}  // namespace zaya
