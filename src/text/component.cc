// SPDX-License-Identifier: Apache-2.0
#include "text/component.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"

namespace zaya {

Component::Component(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
  if (!json.is_object()) {
    damaged(fmt::format("expected an object, found {}", describe(json.kind())));
  }
  type_ = text("type");
}

void Component::allow(std::initializer_list<std::string_view> names) const {
  for (const auto& [name, value] : json_.members()) {
    if (name == "type" || std::find(names.begin(), names.end(), name) != names.end()) continue;
    refuse(fmt::format("with member {} isn't supported", json_quote(name)));
  }
}

const Json& Component::at(std::string_view name) const {
  if (const Json* value = json_.find(name)) return *value;
  damaged(fmt::format("member {} is missing", json_quote(name)));
}

const std::string& Component::text(std::string_view name) const {
  const Json& value = at(name);
  if (value.is_string()) return value.as_string();
  damaged(fmt::format("{}: expected a string, found {}", name, describe(value.kind())));
}

std::string Component::text(std::string_view name, std::string_view fallback) const {
  const Json* value = json_.find(name);
  return value == nullptr || value->is_null() ? std::string(fallback) : text(name);
}

bool Component::flag(std::string_view name) const {
  const Json& value = at(name);
  if (value.is_bool()) return value.as_bool();
  damaged(fmt::format("{}: expected true or false, found {}", name, describe(value.kind())));
}

bool Component::flag(std::string_view name, bool fallback) const {
  const Json* value = json_.find(name);
  return value == nullptr || value->is_null() ? fallback : flag(name);
}

const Json::Array& Component::list(std::string_view name) const {
  const Json& value = at(name);
  if (value.is_array()) return value.items();
  damaged(fmt::format("{}: expected a list, found {}", name, describe(value.kind())));
}

Component Component::item(std::string_view name, std::size_t i) const {
  return Component(list(name)[i], fmt::format("{}.{}[{}]", where_, name, i));
}

void Component::refuse(std::string_view problem) const {
  throw Error{ErrorKind::usage, fmt::format("{}: {} {}", where_, type_, problem)};
}

void Component::damaged(std::string_view problem) const {
  throw Error{ErrorKind::damaged, fmt::format("{}: {}", where_, problem)};
}

PatternText read_pattern(const Component& component, std::string_view name) {
  const Json& pattern = component.at(name);
  if (pattern.is_object() && pattern.members().size() == 1) {
    const auto& [kind, value] = pattern.members()[0];
    if ((kind == "String" || kind == "Regex") && value.is_string()) {
      if (value.as_string().empty()) component.refuse("with an empty pattern isn't supported");
      return {value.as_string(), kind == "Regex"};
    }
  }
  component.damaged(fmt::format("{}: expected {{\"String\": ...}} or {{\"Regex\": ...}}", name));
}

}  // namespace zaya
