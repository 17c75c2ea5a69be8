// SPDX-License-Identifier: Apache-2.0
//
// Reading one component of a tokenizer file: an object {"type": NAME, ...}. What is not known is
// refused, since leaving it out would silently give other ids.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json.h"

namespace zaya {

class Component {
 public:
  // `json` must outlive this. `where` is the path to the component, such as
  // "tokenizer.json: decoder". Throws Error{damaged} unless it is an object with a type.
  Component(const Json& json, std::string where);

  const std::string& type() const { return type_; }
  const std::string& where() const { return where_; }
  bool has(std::string_view name) const { return json_.find(name) != nullptr; }

  // Throws Error{usage} naming the first member that is neither the type nor in the list.
  void allow(std::initializer_list<std::string_view> names) const;

  // Members of a stated kind. Missing ones and other kinds throw Error{damaged}; with a fallback a
  // missing or null one gives that.
  const Json& at(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  bool flag(std::string_view name) const;
  bool flag(std::string_view name, bool fallback) const;
  const Json::Array& list(std::string_view name) const;
  // Item i of a list of components.
  Component item(std::string_view name, std::size_t i) const;

  // Throws Error{usage}: "WHERE: TYPE PROBLEM".
  [[noreturn]] void refuse(std::string_view problem) const;
  // Throws Error{damaged}: "WHERE: PROBLEM".
  [[noreturn]] void damaged(std::string_view problem) const;

 private:
  const Json& json_;
  std::string where_, type_;
};

// A pattern member: {"String": ...} or {"Regex": ...}.
struct PatternText {
  std::string text;
  bool is_regex = false;
};
PatternText read_pattern(const Component& component, std::string_view name);

}  // namespace zaya
