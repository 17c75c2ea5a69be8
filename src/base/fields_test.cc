// SPDX-License-Identifier: Apache-2.0
#include "base/fields.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/toml.h"

namespace zaya {

namespace {

struct Sample {
  Index steps = 5;
  double rate = 0.5;
  std::string kind = "muon";
  std::vector<std::string> paths;
  bool fast = false;
};

FieldList list(Sample& s) {
  FieldList f;
  f.add("steps", s.steps, "Steps.").range(1, 100);
  f.add("rate", s.rate, "Rate.").range(0, 1);
  f.add("kind", s.kind, "Kind.").choices({"muon", "adamw"});
  f.add("paths", s.paths, "Paths.").cosmetic();
  f.add("fast", s.fast, "Fast.");
  return f;
}

std::string problem(const std::string& toml) {
  Sample s;
  try {
    list(s).read(parse_toml(toml, "x.toml"), "x.toml", "train");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("fields are read, dumped and read again") {
  Sample s;
  list(s).read(parse_toml("steps = 7\nrate = 1\nkind = \"adamw\"\npaths = [\"a\", \"b\"]\n", "x"),
               "x", "train");
  CHECK(s.steps == 7);
  CHECK(s.rate == 1.0);
  CHECK(s.paths.size() == 2);
  Sample t;
  list(t).read(parse_toml(list(s).to_toml(), "x"), "x", "train");
  CHECK(list(t).values() == list(s).values());
  CHECK(list(t).values(true).find("paths") == nullptr);
}

TEST_CASE("messages name the place, the key and the way out") {
  CHECK(problem("\nstesp = 1") == "x.toml:2: unknown key train.stesp; did you mean train.steps?");
  CHECK(problem("steps = 0") ==
        "x.toml:1: train.steps: 0 is out of range; it must be integer, 1 to 100");
  CHECK(problem("steps = \"a\"") == "x.toml:1: train.steps: \"a\" is not integer, 1 to 100");
  CHECK(problem("kind = \"moun\"") ==
        "x.toml:1: train.kind: unknown value \"moun\"; one of muon, adamw; did you mean muon?");
  CHECK(problem("steps = 1\nsteps = 2").starts_with("x.toml:2:"));
}

TEST_CASE("overrides take TOML values and bare words") {
  Sample s;
  const FieldList f = list(s);
  f.override_from_text("kind", "adamw", "train");
  f.override_from_text("rate", "1e-3", "train");
  f.override_from_text("paths", "[\"p\"]", "train");
  f.override_from_text("fast", "true", "train");
  CHECK(s.kind == "adamw");
  CHECK(s.rate == 1e-3);
  CHECK(s.fast);
  CHECK_THROWS_AS(f.override_from_text("steps", "abc", "train"), Error);
}

}  // namespace zaya
