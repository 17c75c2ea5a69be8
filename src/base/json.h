// SPDX-License-Identifier: Apache-2.0
//
// A JSON (and TOML) value and its strict reader. Members keep their order; a member given twice,
// trailing text, NaN, comments, invalid UTF-8, lone surrogates and nesting above 128 are errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace zaya {

class Json {
 public:
  enum class Kind { null, boolean, integer, real, string, array, object };
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;
  Json(bool value) : value_(value) {}
  Json(int value) : value_(std::int64_t{value}) {}
  Json(std::int64_t value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  static Json array() { return Json(Array{}); }
  static Json object() { return Json(Object{}); }

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is_null() const { return kind() == Kind::null; }
  bool is_bool() const { return kind() == Kind::boolean; }
  bool is_integer() const { return kind() == Kind::integer; }
  // An integer or a real.
  bool is_number() const { return is_integer() || kind() == Kind::real; }
  bool is_string() const { return kind() == Kind::string; }
  bool is_array() const { return kind() == Kind::array; }
  bool is_object() const { return kind() == Kind::object; }

  // The value as stated; a wrong kind throws Error{damaged} naming both kinds (and line, if known).
  bool as_bool() const;
  std::int64_t as_integer() const;  // also a real with an integral value, such as 4.0
  double as_real() const;           // also an integer
  const std::string& as_string() const;
  const Array& items() const;
  const Object& members() const;
  Array& items();
  Object& members();

  // Member of an object; null when absent (find) or Error{damaged} naming the key (at).
  const Json* find(std::string_view key) const;
  const Json& at(std::string_view key) const;
  // Appends a member, or replaces the one of that name.
  void set(std::string_view key, Json value);
  void push(Json value);

  // Line in the file it was read from, from 1; 0 when unknown (JSON) or made by the program.
  int line = 0;

  // Compact text; with indent >= 0 one member or item a line. Reals print with the digits needed to
  // read back the same double; NaN and infinities print as null.
  std::string dump(int indent = -1) const;

  // Whole unsigned 64-bit integers above 2^63-1 are kept as reals.
  // `where` (a path) begins the message of the Error{damaged}.
  static Json parse(std::string_view text, std::string_view where);

  bool operator==(const Json& other) const { return value_ == other.value_; }

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

// Name of a kind for messages: "a string", "an object".
std::string_view describe(Json::Kind kind);
// `text` as a quoted JSON string.
std::string json_quote(std::string_view text);

}  // namespace zaya
