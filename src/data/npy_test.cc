// SPDX-License-Identifier: Apache-2.0
#include "data/npy.h"

#include <doctest/doctest.h>

#include "base/json.h"
#include "data/testing.h"

namespace zaya {

namespace {

const std::string kFixtures = std::string(ZAYA_TEST_DATA) + "/npy/";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A version 1 file with this literal and so many bytes of data.
std::string file_of(const std::string& literal, std::size_t num_bytes) {
  std::string header = literal;
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += '\1';
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + std::string(num_bytes, '\0');
}

std::string failure_with(const std::string& literal, std::size_t num_bytes) {
  const std::string bytes = file_of(literal, num_bytes);
  return failure_of([&] { parse_npy(bytes_of(bytes), "f"); });
}

}  // namespace

TEST_CASE("arrays of numpy are read in row order, and others refused") {
  const Json expected = Json::parse(read_file(kFixtures + "expected.json"), "expected.json");
  int num_accepted = 0, num_refused = 0;
  for (const auto& [name, info] : expected.members()) {
    CAPTURE(name);
    const std::string path = kFixtures + name;
    if (info.at("verdict").as_string() != "accept") {
      CHECK(failure_of([&] { NpyTokens{path}; }).starts_with("3 " + path));
      ++num_refused;
      continue;
    }
    ++num_accepted;
    NpyTokens source(path);
    TokenBatch batch;
    std::vector<Index> tokens, wanted;
    Index num_rows = 0;
    while (source.next(batch)) {
      tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
      num_rows += batch.ends_row ? 1 : 0;
    }
    for (const Json& item : info.at("tokens_in_C_order").items()) {
      wanted.push_back(item.as_integer());
    }
    CHECK(tokens == wanted);
    const Json::Array& shape = info.at("shape").items();
    const Index first = shape[0].as_integer();
    CHECK(num_rows == (shape.size() == 2 ? first : std::min<Index>(first, 1)));
  }
  CHECK(num_accepted == 9);
  CHECK(num_refused == 4);
}

TEST_CASE("the header is the one literal that numpy writes, in any order and quotes") {
  for (const char* literal : {
           "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }",
           "{\"shape\":(3,),\"descr\":\"<u2\",\"fortran_order\":True}",
           "{'shape': (1, 3), 'fortran_order': False, 'descr': '>i2'}",
           "{'shape': (6,), 'fortran_order': False, 'descr': '|u1'}",
       }) {
    CAPTURE(literal);
    CHECK(failure_with(literal, 6) == "no error");
  }
  struct Bad {
    const char* literal;
    const char* message;
  };
  for (const auto& [literal, message] : std::vector<Bad>{
           {"", "no '{'"},
           {"{", "no text"},
           {"{'descr': '<u2', 'fortran_order': False}", "no descr, fortran_order or shape"},
           {"{'descr': '<u2', 'descr': '<u2', 'fortran_order': False, 'shape': (3,)}", "twice"},
           {"{'descr': '<u2', 'fortran_order': 0, 'shape': (3,)}", "neither True nor False"},
           {"{'descr': '<u2', 'fortran_order': False, 'shape': (3)}", "number in parentheses"},
           {"{'descr': '<u2', 'fortran_order': False, 'shape': ()}", "single value"},
           {"{'descr': '<u2', 'fortran_order': False, 'shape': (1, 1, 3)}", "more than two dims"},
           {"{'descr': '<u2', 'fortran_order': False, 'shape': (-3,)}", "no size"},
           {"{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "no size"},
           {"{'descr': '<u2', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
            "more than any file"},
           {"{'descr': '<u2', 'fortran_order': False, 'shape': (4,)}", "states 4 values"},
           {"{'descr': '<u2', 'fortran_order': False, 'shape': (3,)} ; import os", "behind it"},
           {"{'descr': __import__('os'), 'fortran_order': False, 'shape': (3,)}", "no text"},
           {"{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (3,)}", "records"},
           {"{'descr': '<f2', 'fortran_order': False, 'shape': (3,)}", "type <f2"},
           {"{'descr': '|u2', 'fortran_order': False, 'shape': (3,)}", "type |u2"},
           {"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", "pickle"},
       }) {
    CAPTURE(literal);
    const std::string failure = failure_with(literal, 6);
    CHECK(failure.starts_with("3 f: "));
    CHECK(failure.find(message) != std::string::npos);
    CHECK(failure.find('\n') == std::string::npos);
  }
}

TEST_CASE("every cut of a file is refused") {
  const std::string whole = file_of("{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }", 6);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const std::string part = whole.substr(0, size);
    CHECK(failure_of([&] { parse_npy(bytes_of(part), "f"); }).starts_with("3 "));
  }
}

TEST_CASE("rows without columns are no documents, however many the header states") {
  const TestFolder folder;
  const std::string path = folder.write(
      "a.npy", file_of("{'descr': '<u2', 'fortran_order': False, 'shape': (9000000000000, 0)}", 0));
  NpyTokens source(path);
  TokenBatch batch;
  CHECK(!source.next(batch));
}

TEST_CASE("integers of all widths and orders come out as they were meant") {
  const unsigned char raw[] = {0xff, 0x80, 0, 0, 0, 0, 0, 0x01};
  const auto* data = reinterpret_cast<const std::byte*>(raw);
  CHECK(integer_at({1, false, false}, data, 0) == 255);
  CHECK(integer_at({1, true, false}, data, 1) == -128);
  CHECK(integer_at({2, false, false}, data, 0) == 0x80ff);
  CHECK(integer_at({2, true, false}, data, 0) == 0x80ff - 65536);
  CHECK(integer_at({2, false, true}, data, 0) == 0xff80);
  CHECK(integer_at({4, true, true}, data, 1) == 1);
  CHECK(integer_at({8, true, false}, data, 0) == 0x01000000000080ffll);
  CHECK(integer_at({8, false, true}, data, 0) < 0);
}

}  // namespace zaya
