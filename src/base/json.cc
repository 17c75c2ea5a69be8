// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/error.h"

namespace zaya {

namespace {

constexpr std::size_t kMaxDepth = 128;
// From this size on an object's keys are looked up in a set while reading.
constexpr std::size_t kLinearKeys = 16;

// Builds the value from the library's events; keeps the keys of open objects to find doubles.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(std::string_view where) : where_(where) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(Json{}); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(std::int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) {
      return add(Json(static_cast<double>(value)));
    }
    return add(Json(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (!std::isfinite(value)) return fail("number out of range: " + text);
    return add(Json(value));
  }
  bool string(string_t& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t&) override { return fail("binary value"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool key(string_t& name) override {
    Frame& frame = stack_.back();
    const Json::Object& members = frame.value.members();
    bool is_known = false;
    if (members.size() < kLinearKeys) {
      for (const auto& member : members) is_known = is_known || member.first == name;
    } else {
      if (frame.keys.empty()) {
        for (const auto& member : members) frame.keys.insert(member.first);
      }
      is_known = !frame.keys.insert(name).second;
    }
    if (is_known) return fail("member " + json_quote(name) + " is given twice");
    frame.key = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string text = error.what();
    if (const std::size_t colon = text.find("; last read"); colon != std::string::npos) {
      text.resize(colon);
    }
    if (const std::size_t bracket = text.find("] "); bracket != std::string::npos) {
      text.erase(0, bracket + 2);
    }
    return fail(fmt::format("not valid JSON at byte {}: {}", position, text));
  }

 private:
  struct Frame {
    Json value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  [[noreturn]] bool fail(const std::string& what) {
    throw Error{ErrorKind::damaged, where_ + ": " + what};
  }
  bool add(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
    } else if (Frame& frame = stack_.back(); frame.value.is_array()) {
      frame.value.items().push_back(std::move(value));
    } else {
      frame.value.members().emplace_back(std::move(frame.key), std::move(value));
    }
    return true;
  }
  bool open(Json value) {
    if (stack_.size() >= kMaxDepth) fail("nested deeper than 128 levels");
    stack_.push_back({std::move(value), {}, {}});
    return true;
  }
  bool close() {
    Json value = std::move(stack_.back().value);
    stack_.pop_back();
    return add(std::move(value));
  }

  std::string where_;
  Json root_;
  std::vector<Frame> stack_;
};

[[noreturn]] void wrong_kind(const Json& value, std::string_view wanted) {
  throw Error{ErrorKind::damaged,
              fmt::format("{}expected {}, found {}",
                          value.line > 0 ? fmt::format("line {}: ", value.line) : "", wanted,
                          describe(value.kind()))};
}

void append_number(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  out += text;
}

void append(const Json& value, int indent, int depth, std::string& out);

template <class Container, class Item>
void append_list(const Container& items, char open, char close, int indent, int depth,
                 std::string& out, Item item) {
  out += open;
  bool is_first = true;
  for (const auto& x : items) {
    if (!is_first) out += ',';
    is_first = false;
    if (indent >= 0) out.append("\n").append(static_cast<std::size_t>(indent * (depth + 1)), ' ');
    item(x);
  }
  if (indent >= 0 && !is_first) {
    out.append("\n").append(static_cast<std::size_t>(indent * depth), ' ');
  }
  out += close;
}

void append(const Json& value, int indent, int depth, std::string& out) {
  switch (value.kind()) {
    case Json::Kind::null: out += "null"; break;
    case Json::Kind::boolean: out += value.as_bool() ? "true" : "false"; break;
    case Json::Kind::integer: out += std::to_string(value.as_integer()); break;
    case Json::Kind::real: append_number(value.as_real(), out); break;
    case Json::Kind::string: out += json_quote(value.as_string()); break;
    case Json::Kind::array:
      append_list(value.items(), '[', ']', indent, depth, out,
                  [&](const Json& x) { append(x, indent, depth + 1, out); });
      break;
    case Json::Kind::object:
      append_list(value.members(), '{', '}', indent, depth, out, [&](const auto& member) {
        out += json_quote(member.first);
        out += indent >= 0 ? ": " : ":";
        append(member.second, indent, depth + 1, out);
      });
      break;
  }
}

}  // namespace

std::string_view describe(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::null: return "null";
    case Json::Kind::boolean: return "true or false";
    case Json::Kind::integer: return "an integer";
    case Json::Kind::real: return "a number";
    case Json::Kind::string: return "a string";
    case Json::Kind::array: return "a list";
    case Json::Kind::object: return "an object";
  }
  return "nothing";
}

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<int>(c));
        } else {
          out += c;
        }
    }
  }
  return out += '"';
}

bool Json::as_bool() const {
  if (const bool* value = std::get_if<bool>(&value_)) return *value;
  wrong_kind(*this, "true or false");
}

std::int64_t Json::as_integer() const {
  if (const std::int64_t* value = std::get_if<std::int64_t>(&value_)) return *value;
  if (const double* value = std::get_if<double>(&value_)) {
    if (*value == std::trunc(*value) && std::abs(*value) < 9e15) {
      return static_cast<std::int64_t>(*value);
    }
  }
  wrong_kind(*this, "an integer");
}

double Json::as_real() const {
  if (const double* value = std::get_if<double>(&value_)) return *value;
  if (const std::int64_t* value = std::get_if<std::int64_t>(&value_)) {
    return static_cast<double>(*value);
  }
  wrong_kind(*this, "a number");
}

const std::string& Json::as_string() const {
  if (const std::string* value = std::get_if<std::string>(&value_)) return *value;
  wrong_kind(*this, "a string");
}

const Json::Array& Json::items() const {
  if (const Array* value = std::get_if<Array>(&value_)) return *value;
  wrong_kind(*this, "a list");
}

const Json::Object& Json::members() const {
  if (const Object* value = std::get_if<Object>(&value_)) return *value;
  wrong_kind(*this, "an object");
}

Json::Array& Json::items() { return const_cast<Array&>(std::as_const(*this).items()); }
Json::Object& Json::members() { return const_cast<Object&>(std::as_const(*this).members()); }

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members()) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* value = find(key)) return *value;
  throw Error{ErrorKind::damaged, fmt::format("member {} is missing", json_quote(key))};
}

void Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object{};
  for (auto& [name, old] : members()) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  members().emplace_back(std::string(key), std::move(value));
}

void Json::push(Json value) {
  if (is_null()) value_ = Array{};
  items().push_back(std::move(value));
}

std::string Json::dump(int indent) const {
  std::string out;
  append(*this, indent, 0, out);
  return out;
}

Json Json::parse(std::string_view text, std::string_view where) {
  Builder builder(where);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace zaya
