// SPDX-License-Identifier: Apache-2.0
#include "data/jsonl.h"

#include <fmt/core.h>
#include <simdjson.h>

#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/line_reader.h"
#include "text/unicode.h"

namespace zaya {

static_assert(LineReader::kPaddingBytes >= simdjson::SIMDJSON_PADDING);

namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The four hexadecimal digits of a \u escape that begins at `at`, or -1.
int escape_at(std::string_view line, std::size_t at) {
  if (at + 6 > line.size() || line[at] != '\\' || line[at + 1] != 'u') return -1;
  int code = 0;
  for (std::size_t i = at + 2; i < at + 6; ++i) {
    const int digit = hex_value(line[i]);
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  return code;
}

constexpr bool is_high_surrogate(int code) { return code >= 0xd800 && code < 0xdc00; }
constexpr bool is_low_surrogate(int code) { return code >= 0xdc00 && code < 0xe000; }

// Where the first lone surrogate escape from `from` on begins, or npos.
std::size_t find_lone_surrogate(std::string_view line, std::size_t from) {
  for (std::size_t at = line.find('\\', from); at != std::string_view::npos;
       at = line.find('\\', at)) {
    const int code = escape_at(line, at);
    if (is_high_surrogate(code)) {
      if (!is_low_surrogate(escape_at(line, at + 6))) return at;
      at += 12;
    } else if (is_low_surrogate(code)) {
      return at;
    } else {
      at += 2;
    }
    if (at >= line.size()) break;
  }
  return std::string_view::npos;
}

bool may_hold_surrogates(std::string_view line) {
  return line.find("\\ud") != std::string_view::npos || line.find("\\uD") != std::string_view::npos;
}

std::string missing(const std::string& key) {
  return fmt::format("the object has no member {} (--text-key names another)", json_quote(key));
}

std::string given_twice(const std::string& key) {
  return fmt::format("member {} is given twice", json_quote(key));
}

std::string not_a_string(const std::string& key) {
  return fmt::format("member {} is not a string", json_quote(key));
}

}  // namespace

struct JsonlParser::State {
  std::string key;
  bool is_lenient = false, was_repaired = false;
  simdjson::dom::parser parser;
  std::string repaired;  // with padding behind it

  std::string parse_clean(std::string_view line, std::string& text);
  std::string parse_slowly(std::string_view line, std::string& text) const;
  std::string_view repair(std::string_view line);
};

JsonlParser::JsonlParser(std::string key, bool is_lenient) : state_(std::make_unique<State>()) {
  state_->key = std::move(key);
  state_->is_lenient = is_lenient;
}

JsonlParser::~JsonlParser() = default;
JsonlParser::JsonlParser(JsonlParser&&) noexcept = default;

bool JsonlParser::was_repaired() const { return state_->was_repaired; }

std::string JsonlParser::parse(std::string_view line, std::string& text) {
  State& s = *state_;
  s.was_repaired = false;
  const bool has_lone_surrogate =
      may_hold_surrogates(line) && find_lone_surrogate(line, 0) != std::string_view::npos;
  const bool is_utf8 = simdjson::validate_utf8(line.data(), line.size());
  if (has_lone_surrogate || !is_utf8) {
    if (!s.is_lenient) return is_utf8 ? "a lone surrogate escape (\\ud800)" : "invalid UTF-8";
    line = s.repair(line);
  }
  return s.parse_clean(line, text);
}

std::string_view JsonlParser::State::repair(std::string_view line) {
  was_repaired = true;
  repaired.clear();
  append_valid_utf8(line, repaired);
  const std::size_t size = repaired.size();
  for (std::size_t at = find_lone_surrogate(repaired, 0); at != std::string::npos;
       at = find_lone_surrogate(repaired, at + 6)) {
    repaired.replace(at, 6, "\\ufffd");
  }
  repaired.append(LineReader::kPaddingBytes, ' ');
  return std::string_view(repaired).substr(0, size);
}

// `line` is valid UTF-8 without lone surrogates.
std::string JsonlParser::State::parse_clean(std::string_view line, std::string& text) {
  simdjson::dom::element root;
  const simdjson::error_code error = parser.parse(line.data(), line.size(), false).get(root);
  // simdjson refuses numbers beyond 64 bits, which JSON allows.
  if (error == simdjson::NUMBER_ERROR) return parse_slowly(line, text);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error != simdjson::SUCCESS) {
    return fmt::format("not valid JSON ({})", simdjson::error_message(error));
  }
  simdjson::dom::object object;
  if (root.get_object().get(object) != simdjson::SUCCESS) return "not a JSON object";
  bool is_found = false;
  for (const auto& [name, value] : object) {
    if (name != key) continue;
    if (is_found) return given_twice(key);
    std::string_view content;
    if (value.get_string().get(content) != simdjson::SUCCESS) return not_a_string(key);
    text.assign(content);
    is_found = true;
  }
  return is_found ? "" : missing(key);
}

std::string JsonlParser::State::parse_slowly(std::string_view line, std::string& text) const {
  Json root;
  try {
    root = Json::parse(line, "");
  } catch (const Error& error) {
    return error.message().substr(2);  // without the empty place before ": "
  }
  if (!root.is_object()) return "not a JSON object";
  const Json* value = root.find(key);
  if (value == nullptr) return missing(key);
  if (!value->is_string()) return not_a_string(key);
  text = value->as_string();
  return "";
}

}  // namespace zaya
