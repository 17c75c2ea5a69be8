// SPDX-License-Identifier: Apache-2.0
#include "base/fields.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/overloaded.h"
#include "base/toml.h"

namespace zaya {

namespace {

[[noreturn]] void refuse(std::string_view where, std::string_view key, const std::string& problem) {
  throw Error{ErrorKind::usage, fmt::format("{}: {}: {}", where, key, problem)};
}

std::string number_text(double x) {
  return x == std::trunc(x) && std::abs(x) < 1e15 ? fmt::format("{:.0f}", x) : fmt::format("{}", x);
}

template <class T>
Json list_json(const std::vector<T>& list) {
  Json out = Json::array();
  for (const T& x : list) out.push(Json(x));
  return out;
}

// TOML writes lists, strings, numbers and booleans as JSON does, except that it wants DEL escaped.
// It has no null; none occurs in options.
std::string toml_text(const Json& value) {
  std::string out;
  for (const char c : value.dump()) {
    if (c == '\x7f') {
      out += "\\u007f";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

Field::Field(std::string name, Target target, std::string help)
    : name_(std::move(name)), help_(std::move(help)), target_(target) {}

Field& Field::range(double least, double most) {
  least_ = least;
  most_ = most;
  return *this;
}

Field& Field::choices(std::vector<std::string> allowed) {
  allowed_ = std::move(allowed);
  return *this;
}

Field& Field::unit(std::string_view name) {
  unit_ = name;
  return *this;
}

Field& Field::cosmetic() {
  is_cosmetic_ = true;
  return *this;
}

std::string Field::type_text() const {
  std::string text =
      std::visit(Overloaded{[](bool*) { return "true or false"; }, [](Index*) { return "integer"; },
                            [](double*) { return "number"; }, [](std::string*) { return "text"; },
                            [](std::vector<std::string>*) { return "list of texts"; },
                            [](std::vector<double>*) { return "list of numbers"; },
                            [](std::vector<Index>*) { return "list of integers"; }},
                 target_);
  if (!allowed_.empty()) return fmt::format("one of {}", fmt::join(allowed_, ", "));
  const bool has_least = least_ > -1e300, has_most = most_ < 1e300;
  if (has_least && has_most) {
    text += fmt::format(", {} to {}", number_text(least_), number_text(most_));
  } else if (has_least) {
    text += fmt::format(", at least {}", number_text(least_));
  } else if (has_most) {
    text += fmt::format(", at most {}", number_text(most_));
  }
  if (!unit_.empty()) text += " (" + unit_ + ")";
  return text;
}

Json Field::value() const {
  return std::visit(
      Overloaded{[](const bool* x) { return Json(*x); }, [](const Index* x) { return Json(*x); },
                 [](const double* x) { return Json(*x); },
                 [](const std::string* x) { return Json(*x); },
                 [](const auto* list) { return list_json(*list); }},
      target_);
}

void Field::check_number(double x, std::string_view where, std::string_view key) const {
  if (!(x >= least_ && x <= most_)) {
    refuse(where, key,
           fmt::format("{} is out of range; it must be {}", number_text(x), type_text()));
  }
}

void Field::check_text(const std::string& x, std::string_view where, std::string_view key) const {
  if (allowed_.empty()) return;
  for (const std::string& allowed : allowed_) {
    if (x == allowed) return;
  }
  refuse(
      where, key,
      fmt::format("unknown value {}; {}{}", json_quote(x), type_text(), did_you_mean(x, allowed_)));
}

void Field::set(const Json& value, std::string_view where, std::string_view key) const {
  const auto integer = [&](const Json& v) -> Index {
    const Index x = v.as_integer();
    check_number(static_cast<double>(x), where, key);
    return x;
  };
  const auto real = [&](const Json& v) -> double {
    const double x = v.as_real();
    check_number(x, where, key);
    return x;
  };
  const auto text = [&](const Json& v) -> std::string {
    check_text(v.as_string(), where, key);
    return v.as_string();
  };
  const auto list = [&](auto& out, const auto& convert) {
    out.clear();
    for (const Json& item : value.items()) out.push_back(convert(item));
  };
  try {
    std::visit(
        Overloaded{[&](bool* x) { *x = value.as_bool(); }, [&](Index* x) { *x = integer(value); },
                   [&](double* x) { *x = real(value); }, [&](std::string* x) { *x = text(value); },
                   [&](std::vector<std::string>* x) { list(*x, text); },
                   [&](std::vector<double>* x) { list(*x, real); },
                   [&](std::vector<Index>* x) { list(*x, integer); }},
        target_);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage) throw;
    refuse(where, key, fmt::format("{} is not {}", value.dump(), type_text()));
  }
}

Field& FieldList::add_target(std::string name, Field::Target target, std::string help) {
  ZAYA_CHECK(find(name) == nullptr, name);
  return fields_.emplace_back(std::move(name), target, std::move(help));
}

const Field* FieldList::find(std::string_view name) const {
  for (const Field& field : fields_) {
    if (field.name() == name) return &field;
  }
  return nullptr;
}

namespace {

[[noreturn]] void unknown_key(const FieldList& list, std::string_view where,
                              const std::string& section, std::string_view key) {
  std::vector<std::string> names;
  for (const Field& field : list.fields()) names.push_back(field.name());
  std::string best = nearest(key, names);
  if (!best.empty()) best = fmt::format("; did you mean {}.{}?", section, best);
  throw Error{ErrorKind::usage, fmt::format("{}: unknown key {}.{}{}", where, section, key, best)};
}

}  // namespace

void FieldList::read(const Json& object, const std::string& path,
                     const std::string& section) const {
  if (!object.is_object()) {
    throw Error{ErrorKind::usage,
                fmt::format("{}:{}: {} must be a section", path, object.line, section)};
  }
  for (const auto& [key, value] : object.members()) {
    const std::string where = fmt::format("{}:{}", path, value.line);
    const Field* field = find(key);
    if (field == nullptr) unknown_key(*this, where, section, key);
    field->set(value, where, section + "." + key);
  }
}

void FieldList::override_from_text(std::string_view key, std::string_view text,
                                   const std::string& section) const {
  const Field* field = find(key);
  if (field == nullptr) unknown_key(*this, "command line", section, key);
  Json value = toml_value_from_text(text);
  // A text field takes 1e-3 or true literally.
  if (field->value().is_string() && !value.is_string()) value = Json(std::string(text));
  field->set(value, "command line", section + "." + std::string(key));
}

Json FieldList::values(bool only_mathematical) const {
  Json out = Json::object();
  for (const Field& field : fields_) {
    if (!only_mathematical || !field.is_cosmetic()) out.set(field.name(), field.value());
  }
  return out;
}

std::string FieldList::to_toml() const {
  std::string out;
  for (const Field& field : fields_) {
    out += fmt::format("{} = {}\n", field.name(), toml_text(field.value()));
  }
  return out;
}

Json toml_value_from_text(std::string_view text) {
  try {
    return parse_toml("x = " + std::string(text), "command line").at("x");
  } catch (const Error&) {
    return Json(text);
  }
}

}  // namespace zaya
