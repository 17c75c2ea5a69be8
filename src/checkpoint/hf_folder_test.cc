// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hf_folder.h"

#include <doctest/doctest.h>

#include "base/json.h"
#include "checkpoint/testing.h"

namespace zaya {

namespace {

// A file of U8 tensors [1], each holding the first letter of its name.
void write_file(const std::string& path, const std::vector<std::string>& names) {
  std::vector<StoredTensor> tensors;
  for (const std::string& name : names) {
    tensors.push_back({{name, StorageType::u8, {1}}, std::as_bytes(std::span(name.data(), 1))});
  }
  write_safetensors(path, tensors, {{"format", "pt"}});
}

void write_index(const std::string& folder,
                 const std::vector<std::pair<std::string, std::string>>& weight_map) {
  Json map = Json::object(), root = Json::object();
  for (const auto& [name, shard] : weight_map) map.set(name, shard);
  root.set("metadata", Json::object());
  root.set("weight_map", map);
  write_text(join_path(folder, "model.safetensors.index.json"), root.dump(2));
}

std::string complaint(const std::string& folder) {
  return error_of(ErrorKind::damaged, [&] { HfFolder opened(folder); });
}

bool has(const std::string& message, std::string_view part) {
  return message.find(part) != std::string::npos;
}

constexpr char kFirst[] = "model-00001-of-00002.safetensors";
constexpr char kSecond[] = "model-00002-of-00002.safetensors";

}  // namespace

TEST_CASE("a single file, shards with an index, and a union of files give their tensors") {
  const TestFolder folder;
  write_file(folder / "model.safetensors", {"b", "a"});
  CHECK(HfFolder(folder.path()).names() == std::vector<std::string>{"a", "b"});

  remove_all(folder / "model.safetensors");
  write_file(folder / kFirst, {"a"});
  write_file(folder / kSecond, {"c", "b"});
  for (const bool has_index : {false, true}) {
    if (has_index) write_index(folder.path(), {{"c", kSecond}, {"a", kFirst}, {"b", kSecond}});
    const HfFolder opened(folder.path());
    CHECK(opened.names() == std::vector<std::string>{"a", "b", "c"});
    CHECK(opened.files().size() == 2);
    for (const std::string& name : opened.names()) {
      CHECK(opened.tensor(name).bytes[0] == static_cast<std::byte>(name[0]));
    }
    CHECK_FALSE(opened.find("d").has_value());
    CHECK(has(error_of(ErrorKind::damaged, [&] { opened.tensor("d"); }), "no tensor \"d\""));
  }
}

TEST_CASE("files outside the index are not read") {
  const TestFolder folder;
  write_file(folder / kFirst, {"a"});
  write_file(folder / "consolidated.safetensors", {"a", "other"});
  write_index(folder.path(), {{"a", kFirst}});
  CHECK(HfFolder(folder.path()).names() == std::vector<std::string>{"a"});
}

TEST_CASE("a single file wins over an index of other shards, and an index may list it") {
  const TestFolder folder;
  write_file(folder / "model.safetensors", {"a"});
  write_index(folder.path(), {{"b", kFirst}});
  CHECK(HfFolder(folder.path()).names() == std::vector<std::string>{"a"});
  write_index(folder.path(), {{"a", "model.safetensors"}});
  CHECK(HfFolder(folder.path()).names() == std::vector<std::string>{"a"});
}

TEST_CASE("an index that does not fit its shards is refused with tensor and file") {
  const TestFolder folder;
  write_file(folder / kFirst, {"a"});
  write_file(folder / kSecond, {"b"});
  write_index(folder.path(), {{"a", kFirst}, {"b", kFirst}});
  CHECK(has(complaint(folder.path()), std::string("tensor \"b\" is not in ") + kFirst));
  write_index(folder.path(), {{"a", kFirst}, {"b", kSecond}, {"c", kSecond}});
  CHECK(has(complaint(folder.path()), "tensor \"c\" is not in"));
  write_index(folder.path(), {{"a", kFirst}, {"b", "model-00003.safetensors"}});
  const std::string missing = complaint(folder.path());
  CHECK(has(missing, "model-00003.safetensors is missing"));
  CHECK(has(missing, "\"b\""));
  write_file(folder / kSecond, {"b", "extra"});
  write_index(folder.path(), {{"a", kFirst}, {"b", kSecond}});
  CHECK(has(complaint(folder.path()), "tensor \"extra\" of"));
  write_file(folder / kSecond, {"a", "b"});
  CHECK(has(complaint(folder.path()), "tensor \"a\" lies in two files"));
}

TEST_CASE("shards are names within the folder") {
  const TestFolder folder;
  make_directories(folder / "inner");
  write_file(folder / "inner/x.safetensors", {"a"});
  for (const std::string shard :
       {"inner/x.safetensors", "../x.safetensors", "..", "", "/x", "x.bin"}) {
    CAPTURE(shard);
    write_index(folder.path(), {{"a", shard}});
    CHECK(has(complaint(folder.path()), "tensor \"a\" lies in"));
  }
}

TEST_CASE("an index that is no index is refused") {
  const TestFolder folder;
  write_file(folder / kFirst, {"a"});
  for (const char* text : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{"a":1}})",
                           R"({"weight_map":{"a":"x","a":"y"}})"}) {
    CAPTURE(text);
    write_text(folder / "model.safetensors.index.json", text);
    CHECK_FALSE(complaint(folder.path()).empty());
  }
}

TEST_CASE("a folder without tensors is not a model folder") {
  const TestFolder folder;
  CHECK_FALSE(HfFolder::is_one(folder.path()));
  CHECK_FALSE(error_of(ErrorKind::usage, [&] { HfFolder opened(folder.path()); }).empty());
  write_file(folder / "any.safetensors", {"a"});
  CHECK(HfFolder::is_one(folder.path()));
}

}  // namespace zaya
