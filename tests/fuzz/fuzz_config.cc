// SPDX-License-Identifier: Apache-2.0
//
// TOML configuration files and the field lists that read them. Any text gives a value or an Error;
// a configuration that was read and written out again reads as the same configuration.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/fields.h"
#include "base/json.h"
#include "base/toml.h"
#include "base/types.h"

namespace zaya {
namespace {

// One field of every kind, with every kind of limit.
struct Sample {
  bool is_on = false;
  Index count = 1;
  double rate = 0.5;
  std::string kind = "first";
  std::string text;
  std::vector<std::string> names;
  std::vector<double> weights;
  std::vector<Index> sizes;
};

FieldList fields_of(Sample& sample) {
  FieldList fields;
  fields.add("is_on", sample.is_on, "A switch.");
  fields.add("count", sample.count, "A number.").range(1, 4096);
  fields.add("rate", sample.rate, "A share.").range(0, 1);
  fields.add("kind", sample.kind, "A choice.").choices({"first", "second"});
  fields.add("text", sample.text, "Any text.").cosmetic();
  fields.add("names", sample.names, "Texts.");
  fields.add("weights", sample.weights, "Numbers.").range(-1e6, 1e6);
  fields.add("sizes", sample.sizes, "Whole numbers.").range(0, 1e15);
  return fields;
}

void check_round_trip(const Json& table) {
  Sample sample;
  FieldList fields = fields_of(sample);
  fields.read(table, "input.toml", "sample");
  Sample again;
  FieldList fields_again = fields_of(again);
  // An Error here is a finding: what we write, we read.
  fields_again.read(parse_toml(fields.to_toml(), "again.toml"), "again.toml", "sample");
  ZAYA_CHECK(fields.values() == fields_again.values());
}

// The first line is taken as the value of an override on a command line.
void check_override(std::string_view text) {
  Sample sample;
  const FieldList fields = fields_of(sample);
  for (const Field& field : fields.fields()) {
    try {
      fields.override_from_text(field.name(), text.substr(0, text.find('\n')), "sample");
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace zaya

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  zaya::check_override(text);
  zaya::Json table;
  try {
    table = zaya::parse_toml(text, "input.toml");
    zaya::Sample sample;
    zaya::fields_of(sample).read(table, "input.toml", "sample");
  } catch (const zaya::Error&) {
    return 0;
  }
  zaya::check_round_trip(table);
  return 0;
}
