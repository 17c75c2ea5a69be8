// SPDX-License-Identifier: Apache-2.0
//
// One list of fields per configuration struct. From that list come the parser, key=value
// overrides, help texts, docs/config.md, the start-up dump and the digest in checkpoints.
//
//   struct RunConfig { Index seed = 1; std::string directory; };
//   void list_fields(RunConfig& c, FieldList& f) {
//     f.add("seed", c.seed, "Seed of every random choice.").range(0, 1e18);
//     f.add("directory", c.directory, "Run folder.").cosmetic();
//   }
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/types.h"

namespace zaya {

// One option: its name, where its value lives, what is allowed.
class Field {
 public:
  using Target = std::variant<bool*, Index*, double*, std::string*, std::vector<std::string>*,
                              std::vector<double>*, std::vector<Index>*>;

  Field(std::string name, Target target, std::string help);

  // Bounds, both allowed. Only for numbers (every entry of a list).
  Field& range(double least, double most);
  // The only texts allowed. Only for strings (every entry of a list).
  Field& choices(std::vector<std::string> allowed);
  Field& unit(std::string_view name);
  // Does not change the mathematics of a run: stays out of the configuration digest.
  Field& cosmetic();

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::string& unit() const { return unit_; }
  bool is_cosmetic() const { return is_cosmetic_; }
  // "integer, 1 to 4096", "one of muon, adamw", "list of texts".
  std::string type_text() const;

  Json value() const;
  // Throws Error{usage} "WHERE: KEY: problem" when the kind or range does not fit.
  void set(const Json& value, std::string_view where, std::string_view key) const;

 private:
  void check_number(double x, std::string_view where, std::string_view key) const;
  void check_text(const std::string& x, std::string_view where, std::string_view key) const;

  std::string name_, help_, unit_;
  Target target_;
  double least_ = -1e300, most_ = 1e300;
  std::vector<std::string> allowed_;
  bool is_cosmetic_ = false;
};

// The fields of one struct, in the order of its documentation.
class FieldList {
 public:
  // The reference is good for chaining only: the next add() may move the field.
  template <class T>
  Field& add(std::string name, T& value, std::string help) {
    return add_target(std::move(name), Field::Target(&value), std::move(help));
  }
  const std::vector<Field>& fields() const { return fields_; }
  const Field* find(std::string_view name) const;

  // Sets every member of `object`; an unknown key is an error that names the nearest known one.
  // `section` ("model") begins the key in messages; `path` and the values' lines say where.
  void read(const Json& object, const std::string& path, const std::string& section) const;
  // "section.key=value" from a command line, already split; `text` is TOML, or a bare string.
  void override_from_text(std::string_view key, std::string_view text,
                          const std::string& section) const;
  // All fields with their values; only those that change the mathematics if asked.
  Json values(bool only_mathematical = false) const;
  // "key = value  # help" lines.
  std::string to_toml() const;

 private:
  Field& add_target(std::string name, Field::Target target, std::string help);

  std::vector<Field> fields_;
};

// A TOML value from command-line text: "3", "true", "[1, 2]", or a bare word taken as a string.
Json toml_value_from_text(std::string_view text);

}  // namespace zaya
