// SPDX-License-Identifier: Apache-2.0
#include "base/toml.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include "base/error.h"

namespace zaya {

namespace {

Json convert(const toml::node& node, const std::string& path) {
  Json value;
  if (const toml::table* table = node.as_table()) {
    value = Json::object();
    for (const auto& [key, child] : *table) value.set(key.str(), convert(child, path));
  } else if (const toml::array* array = node.as_array()) {
    value = Json::array();
    for (const toml::node& child : *array) value.push(convert(child, path));
  } else if (const auto* text = node.as_string()) {
    value = Json(text->get());
  } else if (const auto* integer = node.as_integer()) {
    value = Json(integer->get());
  } else if (const auto* real = node.as_floating_point()) {
    value = Json(real->get());
  } else if (const auto* boolean = node.as_boolean()) {
    value = Json(boolean->get());
  } else {
    throw Error{ErrorKind::usage, fmt::format("{}:{}: dates and times are not used here", path,
                                              node.source().begin.line)};
  }
  value.line = static_cast<int>(node.source().begin.line);
  return value;
}

}  // namespace

Json parse_toml(std::string_view text, const std::string& path) {
  try {
    return convert(toml::parse(text, path), path);
  } catch (const toml::parse_error& error) {
    throw Error{ErrorKind::usage,
                fmt::format("{}:{}: {}", path, error.source().begin.line, error.description())};
  }
}

}  // namespace zaya
