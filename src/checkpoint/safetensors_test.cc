// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/testing.h"

namespace zaya {

namespace {

const std::string kData = std::string(ZAYA_TEST_DATA) + "/safetensors";

// A whole file from the text of its header and its data.
std::string file_of(std::string_view header, std::string_view data = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return bytes.append(header).append(data);
}

SafetensorsHeader parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes.data(), bytes.size())), bytes.size(),
                           "file");
}

// What the reader says against the file, or "" when it accepts.
std::string complaint(const std::string& bytes) {
  return error_of(ErrorKind::damaged, [&] { parse(bytes); });
}

bool is_accepted(std::string_view header, std::string_view data = "") {
  return complaint(file_of(header, data)).empty();
}

// The header of one U8 tensor "a" of two bytes, with one part replaced.
std::string header_with(std::string_view part, std::string_view replacement) {
  std::string text = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const std::size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), replacement);
}

bool is_accepted_with(std::string_view part, std::string_view replacement) {
  return is_accepted(header_with(part, replacement), "xy");
}

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    out += "0123456789abcdef"[static_cast<int>(b) >> 4];
    out += "0123456789abcdef"[static_cast<int>(b) & 15];
  }
  return out;
}

std::string unhex(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    out += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return out;
}

// A word that the message of each class of the official reader has in ours.
std::string_view word_of_class(const std::string& reference) {
  if (reference == "HeaderTooSmall") return "has at least 8";
  if (reference == "HeaderTooLarge") return "above the limit";
  if (reference == "InvalidHeaderLength") return "cut off";
  if (reference == "InvalidHeader") return "UTF-8";
  if (reference == "InvalidHeaderDeserialization") return "header byte";
  if (reference == "ValidationOverflow") return "overflows";
  if (reference == "TensorInvalidInfo") return "its offsets cover";
  if (reference == "MetadataIncompleteBuffer") return "bytes of data but";
  return reference == "InvalidOffset" ? "tensor " : "?";
}

void check_accepted(const std::string& path, const Json& expected) {
  const SafetensorsFile file(path);
  const Json::Array& tensors = expected.at("tensors").items();
  CHECK(file.entries().size() == tensors.size());
  for (const Json& tensor : tensors) {
    const StoredTensor stored = file.tensor(tensor.at("name").as_string());
    CHECK(name_of(stored.spec.type) == tensor.at("dtype").as_string());
    CHECK(hex(stored.bytes) == tensor.at("data_hex").as_string());
    std::vector<std::uint64_t> shape;
    for (const Json& dim : tensor.at("shape").items()) {
      shape.push_back(static_cast<std::uint64_t>(dim.as_integer()));
    }
    CHECK(stored.spec.shape == shape);
  }
  const Json& metadata = expected.at("metadata");
  CHECK(file.header().metadata.size() == (metadata.is_null() ? 0 : metadata.members().size()));
  for (const auto& [key, value] : file.header().metadata) {
    CHECK(metadata.at(key).as_string() == value);
  }
}

}  // namespace

TEST_CASE("the verdict on every kept file is the expected one, for the expected reason") {
  const std::string verdicts_path = kData + "/verdicts.json";
  const Json verdicts = Json::parse(read_file(verdicts_path), verdicts_path);
  int num_files = 0;
  for (const auto& [name, expected] : verdicts.at("files").members()) {
    CAPTURE(name);
    const std::string path = join_path(kData, name);
    ++num_files;
    if (expected.at("verdict").as_string() == "accept") {
      check_accepted(path, expected);
      continue;
    }
    const std::string message = error_of(ErrorKind::damaged, [&] { SafetensorsFile file(path); });
    CHECK(message.starts_with(path));
    CHECK(message.find('\n') == std::string::npos);
    const Json& reference = expected.at("reference_error");
    if (!reference.is_null()) {
      CHECK(message.find(word_of_class(reference.as_string())) != std::string::npos);
    } else {
      CHECK(message.find("twice") != std::string::npos);
    }
  }
  CHECK(num_files == 25);
}

TEST_CASE("the writer gives the bytes of the official writer") {
  const TestFolder folder;
  for (const std::string name : {"w1", "w2", "w3", "w4"}) {
    CAPTURE(name);
    const std::string input_path = kData + "/writer/" + name + ".json";
    const Json input = Json::parse(read_file(input_path), input_path);
    std::vector<std::string> bytes;
    std::vector<StoredTensor> tensors;
    for (const Json& item : input.at("tensors").items()) {
      bytes.push_back(unhex(item.at("data_hex").as_string()));
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const Json& item = input.at("tensors").items()[i];
      StoredTensor& tensor = tensors.emplace_back();
      tensor.spec.name = item.at("name").as_string();
      tensor.spec.type = *storage_type_from_name(item.at("dtype").as_string());
      for (const Json& dim : item.at("shape").items()) {
        tensor.spec.shape.push_back(static_cast<std::uint64_t>(dim.as_integer()));
      }
      tensor.bytes = std::as_bytes(std::span(bytes[i].data(), bytes[i].size()));
    }
    SafetensorsMetadata metadata;
    if (const Json& given = input.at("metadata"); given.is_object()) {
      for (const auto& [key, value] : given.members())
        metadata.emplace_back(key, value.as_string());
    }
    const std::string path = folder / "out.safetensors";
    write_safetensors(path, tensors, metadata);
    CHECK(read_file(path) == read_file(kData + "/writer/" + name + ".safetensors"));
  }
}

TEST_CASE("tensors of every type and random shape survive a round trip, aligned to their size") {
  const TestFolder folder;
  for (std::uint64_t round = 0; round < 12; ++round) {
    std::vector<std::string> bytes;
    std::vector<TensorSpec> specs;
    std::uint64_t random = round * 0x9e3779b97f4a7c15u + 1;
    const auto draw = [&](std::uint64_t limit) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      return (random >> 33) % limit;
    };
    for (int type = 0; type < kNumStorageTypes; ++type) {
      TensorSpec spec{"t" + std::to_string(draw(1000)) + "_" + std::to_string(type),
                      static_cast<StorageType>(type),
                      {}};
      for (std::uint64_t rank = draw(4); rank > 0; --rank) spec.shape.push_back(draw(5));
      if (element_count(spec) * bits_of(spec.type) % 8 != 0) spec.shape.push_back(4);
      std::string& data = bytes.emplace_back(num_bytes_of(spec), '\0');
      for (char& c : data) c = static_cast<char>(draw(256));
      specs.push_back(std::move(spec));
    }
    std::vector<StoredTensor> tensors;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      tensors.push_back({specs[i], std::as_bytes(std::span(bytes[i].data(), bytes[i].size()))});
    }
    const std::string path = folder / "random.safetensors";
    write_safetensors(path, tensors, {{"round", std::to_string(round)}});
    const SafetensorsFile file(path);
    CHECK(file.header().data_offset % 8 == 0);
    for (const StoredTensor& tensor : tensors) {
      const StoredTensor read = file.tensor(tensor.spec.name);
      CHECK(read.spec == tensor.spec);
      CHECK(hex(read.bytes) == hex(tensor.bytes));
      const std::uint64_t element_bytes = std::max<std::uint64_t>(bits_of(read.spec.type) / 8, 1);
      CHECK((file.header().data_offset + file.header().find(read.spec.name)->begin) %
                element_bytes ==
            0);
    }
  }
}

TEST_CASE("an empty file and a one-tensor file have the official bytes") {
  CHECK(plan_safetensors({}, {}).head == file_of("{}      "));
  const TensorSpec spec{"test", StorageType::i32, {2, 2}};
  const SafetensorsPlan plan = plan_safetensors(std::span(&spec, 1), {});
  CHECK(plan.head ==
        file_of(R"({"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}    )"));
  CHECK(plan.file_size == plan.head.size() + 16);
}

TEST_CASE("integers in the header are digits only and reach 2^64-1") {
  CHECK(is_accepted_with("[2]", "[2]"));
  for (const char* bad : {"[2.0]",
                          "[2e0]",
                          "[-2]",
                          "[\"2\"]",
                          "[02]",
                          "[2,]",
                          "[+2]",
                          "[2 1]",
                          "[null]",
                          "[true]",
                          "[[2]]",
                          "2",
                          "\"2\"",
                          "null",
                          "[2E0]",
                          "[-0]",
                          "[18446744073709551616]",
                          "[0x2]",
                          "[2",
                          "[2]]",
                          "[]"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_accepted_with("[2]", bad));
  }
  for (const char* bad : {"[0,2,2]", "[0]", "[]", "[0,2.0]", "[-0,2]", "{}", "[0,\"2\"]", "null"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_accepted_with("[0,2]", bad));
  }
  CHECK(is_accepted_with("[2]", "[2,1,1,1,1,1,1,1,1,1]"));
}

TEST_CASE("sizes are multiplied from the left and never overflow") {
  const auto empty_of = [](std::string_view shape) {
    std::string text = R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,0]}})";
    return text.replace(text.find("[]"), 2, shape);
  };
  CHECK(is_accepted(empty_of("[0,18446744073709551615,18446744073709551615]")));
  CHECK_FALSE(is_accepted(empty_of("[18446744073709551615,18446744073709551615,0]")));
  CHECK_FALSE(is_accepted(empty_of("[9223372036854775808]")));
  CHECK(complaint(file_of(empty_of("[4611686018427387904]"))).find("overflow") !=
        std::string::npos);
}

TEST_CASE("types narrower than a byte need whole bytes") {
  const auto of = [](std::string_view shape) {
    std::string text = R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})";
    return text.replace(text.find("[2]"), 3, shape);
  };
  CHECK(is_accepted(of("[2]"), "x"));
  CHECK_FALSE(is_accepted(of("[1]"), "x"));
  CHECK(complaint(file_of(of("[1]"), "x")).find("inside a byte") != std::string::npos);
}

TEST_CASE("members of an entry are known, complete, given once, and of the right kind") {
  CHECK(is_accepted_with("\"dtype\"", R"("extra":{"x":[1,2.5e3,null,true,"\u00e9"]},"dtype")"));
  CHECK(is_accepted_with("\"U8\"", R"("\u00558")"));
  CHECK_FALSE(is_accepted_with("\"U8\"", "\"u8\""));
  CHECK_FALSE(is_accepted_with("\"U8\"", "8"));
  CHECK_FALSE(is_accepted_with("\"U8\"", "null"));
  CHECK_FALSE(is_accepted_with("\"dtype\":\"U8\",", ""));
  CHECK_FALSE(is_accepted_with("\"shape\":[2],", ""));
  CHECK_FALSE(is_accepted_with(",\"data_offsets\":[0,2]", ""));
  CHECK_FALSE(is_accepted_with("\"dtype\"", "\"dtype\":\"U8\",\"dtype\""));
  CHECK_FALSE(is_accepted_with("\"shape\"", R"("sh\u0061pe":[2],"shape")"));
  CHECK_FALSE(is_accepted_with("\"dtype\"", "\"extra\":1e999,\"dtype\""));
  CHECK_FALSE(is_accepted_with("\"dtype\"", "\"extra\":[1,],\"dtype\""));
}

TEST_CASE("a name that occurs twice is refused, also when spelled with escapes") {
  const auto two = [](std::string_view second) {
    return std::string(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)") +
           std::string(second) + R"(:{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})";
  };
  CHECK(is_accepted(two("\"b\""), "xy"));
  CHECK_FALSE(is_accepted(two("\"a\""), "xy"));
  CHECK_FALSE(is_accepted(two(R"("\u0061")"), "xy"));
  CHECK_FALSE(is_accepted(R"({"__metadata__":{"k":"1","\u006b":"2"}})"));
  CHECK_FALSE(is_accepted(R"({"__metadata__":{},"__metadata__":{}})"));
  CHECK(is_accepted(R"({"__metadata__":null})"));
  CHECK_FALSE(is_accepted(R"({"__metadata__":{"k":null}})"));
  CHECK_FALSE(is_accepted(R"({"__metadata__":{"k":1}})"));
}

TEST_CASE("the header is exactly one strict JSON object") {
  for (const char* good : {"{}", " {} ", "\t\r\n{ }\n", "{\"__metadata__\":{}}"}) {
    CAPTURE(good);
    CHECK(is_accepted(good));
  }
  for (const char* bad : {"",
                          " ",
                          "{",
                          "}",
                          "[]",
                          "null",
                          "1",
                          "{}x",
                          "{}{}",
                          "{},",
                          "{\"a\"}",
                          "{'a':1}",
                          "\xef\xbb\xbf{}",
                          "{/**/}",
                          "{\"a\":NaN}",
                          "{\"a\":{}}",
                          "{\"a\":\"\\ud800\"}",
                          "{\"\\udc00\":1}",
                          "{\"\\ud800\\u0041\":1}",
                          "{\"a\x01\":1}",
                          "{\"\\x\":1}",
                          "{\"\\u12g4\":1}",
                          "{\"a",
                          "{\"a\\"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_accepted(bad));
  }
  CHECK_FALSE(is_accepted(std::string_view("{}\0\0", 4)));
  for (const char* bad : {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80", "\x80",
                          "\xc3", "\xf8\x88\x80\x80\x80"}) {
    CHECK(complaint(file_of("{\"" + std::string(bad) + "\":1}")).find("UTF-8") !=
          std::string::npos);
  }
}

TEST_CASE("nesting is limited to 128 levels") {
  const auto nested = [](int depth) {
    // The outer object and the entry are two levels.
    const std::string extra = std::string(depth - 2, '[') + std::string(depth - 2, ']');
    return header_with("\"dtype\"", "\"x\":" + extra + ",\"dtype\"");
  };
  CHECK(is_accepted(nested(128), "xy"));
  CHECK_FALSE(is_accepted(nested(129), "xy"));
  CHECK_FALSE(is_accepted(nested(100000), "xy"));
}

TEST_CASE("any names and metadata survive a round trip") {
  const TestFolder folder;
  const std::string value = "x";
  const std::span<const std::byte> bytes = std::as_bytes(std::span(value.data(), 1));
  std::vector<StoredTensor> tensors;
  for (const std::string name : {"", " ", "\"\\/\b\f\n\r\t\x01", "\xf0\x9f\x98\x80", "a.b[0]"}) {
    tensors.push_back({{name, StorageType::u8, {1}}, bytes});
  }
  const std::string path = folder / "names.safetensors";
  write_safetensors(path, tensors, {{"z", "\n"}, {"a", ""}});
  const SafetensorsFile file(path);
  for (const StoredTensor& tensor : tensors)
    CHECK(file.tensor(tensor.spec.name).bytes[0] == bytes[0]);
  CHECK(file.header().metadata == SafetensorsMetadata{{"a", ""}, {"z", "\n"}});
}

TEST_CASE("what must not be written is refused") {
  const auto refusal = [](std::vector<TensorSpec> specs, const SafetensorsMetadata& metadata) {
    return error_of(ErrorKind::usage, [&] { plan_safetensors(specs, metadata); });
  };
  const TensorSpec fine{"a", StorageType::f32, {2}};
  CHECK(refusal({fine}, {}).empty());
  CHECK(refusal({fine, fine}, {}).find("twice") != std::string::npos);
  CHECK_FALSE(refusal({{"__metadata__", StorageType::f32, {2}}}, {}).empty());
  CHECK_FALSE(refusal({{"\xff", StorageType::f32, {2}}}, {}).empty());
  CHECK_FALSE(refusal({{"a", StorageType::f4, {3}}}, {}).empty());
  CHECK_FALSE(refusal({{"a", StorageType::f32, {std::uint64_t{1} << 62}}}, {}).empty());
  CHECK_FALSE(refusal({fine}, {{"k", "1"}, {"k", "2"}}).empty());
  CHECK_FALSE(refusal({fine}, {{"k", "\xff"}}).empty());
  CHECK(refusal({{std::string(kMaxHeaderBytes, 'n'), StorageType::u8, {1}}}, {}).find("limit") !=
        std::string::npos);
}

TEST_CASE("a file cut anywhere, or with bytes added, is refused") {
  const std::string whole = read_file(kData + "/ok_two_tensors.safetensors");
  CHECK(complaint(whole).empty());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(complaint(whole.substr(0, length)).empty());
  }
  CHECK_FALSE(complaint(whole + "x").empty());
  CHECK_FALSE(complaint(whole + whole).empty());
}

TEST_CASE("ten tensors over the same bytes are refused") {
  std::string header = "{";
  for (int i = 0; i < 10; ++i) {
    header += (i > 0 ? ",\"" : "\"") + std::to_string(i) +
              R"(":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]})";
  }
  CHECK(complaint(file_of(header + "}", std::string(16, 'x'))).find("overlap") !=
        std::string::npos);
}

TEST_CASE("saving over a mapped file leaves the mapped content as it was") {
  const TestFolder folder;
  const std::string path = folder / "model.safetensors";
  const std::string old_value = "old!", new_value = "new!";
  const auto stored = [](const std::string& value) {
    return std::vector<StoredTensor>{
        {{"t", StorageType::u8, {4}}, std::as_bytes(std::span(value.data(), value.size()))}};
  };
  write_safetensors(path, stored(old_value), {});
  const SafetensorsFile file(path);
  write_safetensors(path, stored(new_value), {});
  CHECK(hex(file.tensor("t").bytes) == hex(stored(old_value)[0].bytes));
  CHECK(hex(SafetensorsFile(path).tensor("t").bytes) == hex(stored(new_value)[0].bytes));
  CHECK(list_directory(folder.path()).size() == 1);
}

TEST_CASE("a long name is cut in messages") {
  const std::string header = "{\"" + std::string(5000, 'n') + "\":{\"dtype\":\"X\"}}";
  const std::string message = complaint(file_of(header));
  CHECK(message.find("nnn...") != std::string::npos);
  CHECK(message.size() < 300);
}

}  // namespace zaya
