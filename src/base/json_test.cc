// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace zaya {

TEST_CASE("json reads and prints all kinds") {
  const std::string text = R"({"a":[1,-2.5,true,null,"x\"\n\u0001"],"b":{"c":1e-05}})";
  const Json value = Json::parse(text, "t");
  CHECK(value.at("a").items()[1].as_real() == -2.5);
  CHECK(value.at("b").at("c").as_real() == 1e-5);
  CHECK(Json::parse(value.dump(), "t") == value);
  CHECK(Json::parse(value.dump(2), "t") == value);
}

TEST_CASE("json refuses what the format forbids") {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "1 2", "NaN",
        "\"\\ud800\"", "\"\xff\"", "// x\n1", "01", "\"\x01\"", "[1e999]"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(Json::parse(text, "t"), Error);
  }
  CHECK_THROWS_AS(Json::parse(std::string(200, '[') + std::string(200, ']'), "t"), Error);
}

TEST_CASE("json says what is wrong with a value") {
  const Json value = Json::parse(R"({"a":"x"})", "t");
  CHECK_THROWS_WITH(value.at("a").as_integer(), "expected an integer, found a string");
  CHECK_THROWS_WITH(value.at("b").as_integer(), "member \"b\" is missing");
}

}  // namespace zaya
