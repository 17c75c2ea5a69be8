// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp.h"

#include <doctest/doctest.h>

#include <cstring>

#include "base/checksums.h"
#include "base/fault_point.h"
#include "checkpoint/dcp_import.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/testing.h"
#include "checkpoint/torch_archive.h"

namespace zaya {

namespace {

using namespace std::string_literals;

const std::string kFixture = std::string(ZAYA_TEST_DATA) + "/pytorch-dcp";

std::span<const std::byte> span_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// ---- what torch.save and torch.distributed.checkpoint write, in small

std::string text(const std::string& value) {
  return "X" + raw(static_cast<std::uint32_t>(value.size())) + value;
}

using Numbers = std::vector<std::uint64_t>;

std::string tuple_of(const Numbers& numbers) {
  std::string bytes = "(";
  for (const std::uint64_t number : numbers) bytes += "J" + raw(static_cast<std::int32_t>(number));
  return bytes + "t";
}

std::string size_of(const Numbers& numbers) {
  return "ctorch\nSize\n" + tuple_of(numbers) + "\x85R";
}

std::string object(const std::string& name, const std::string& members) {
  return "ctorch.distributed.checkpoint." + name + "\n)\x81}(" + members + "ub";
}

struct Entry {
  std::string name, bytes;
};

std::string zip_of(const std::vector<Entry>& entries, std::uint16_t method = 0) {
  std::string file, directory;
  for (const auto& [name, bytes] : entries) {
    const std::string common = raw(method) + std::string(4, '\0') + raw(crc32(span_of(bytes))) +
                               raw(static_cast<std::uint32_t>(bytes.size())) +
                               raw(static_cast<std::uint32_t>(bytes.size())) +
                               raw(static_cast<std::uint16_t>(name.size() + 2)) + "\0\0"s;
    directory += "PK\1\2" + std::string(6, '\0') + common + std::string(10, '\0') +
                 raw(static_cast<std::uint32_t>(file.size())) + "a/" + name;
    file += "PK\3\4" + std::string(4, '\0') + common + "a/" + name + bytes;
  }
  const auto count = static_cast<std::uint16_t>(entries.size());
  return file + directory + "PK\5\6" + std::string(4, '\0') + raw(count) + raw(count) +
         raw(static_cast<std::uint32_t>(directory.size())) +
         raw(static_cast<std::uint32_t>(file.size())) + "\0\0"s;
}

std::string tensor_pickle(const Numbers& sizes, const Numbers& strides, std::uint64_t count,
                          std::uint64_t first = 0, const std::string& storage = "FloatStorage") {
  return "\x80\2"s + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" +
         storage + "\n" + text("0") + text("cpu") + "J" + raw(static_cast<std::int32_t>(count)) +
         "tQJ" + raw(static_cast<std::int32_t>(first)) + tuple_of(sizes) + tuple_of(strides) +
         "\x89" + "ccollections\nOrderedDict\n)RtR.";
}

Numbers strides_of(const Numbers& sizes) {
  Numbers strides(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

struct Box {
  Numbers offsets, sizes;
};

// Elements of a box of a tensor whose values count up, in order.
std::vector<float> values_of(const Numbers& shape, const Box& box) {
  std::vector<float> values;
  const Numbers strides = strides_of(shape), box_strides = strides_of(box.sizes);
  std::uint64_t count = 1;
  for (const std::uint64_t size : box.sizes) count *= size;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t element = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      element += (box.offsets[d] + i / box_strides[d] % box.sizes[d]) * strides[d];
    }
    values.push_back(static_cast<float>(element));
  }
  return values;
}

// A checkpoint with one tensor "t" of counting values, cut into boxes.
void write_checkpoint(const std::string& folder, const Numbers& shape,
                      const std::vector<Box>& boxes) {
  make_directories(folder);
  std::string items, chunks, places;
  for (const Box& box : boxes) {
    const std::vector<float> values = values_of(shape, box);
    const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    const std::string item =
        zip_of({{"data.pkl", tensor_pickle(box.sizes, strides_of(box.sizes), values.size())},
                {"byteorder", "little"},
                {"data/0", bytes}});
    chunks += object("metadata\nChunkStorageMetadata",
                     text("offsets") + size_of(box.offsets) + text("sizes") + size_of(box.sizes));
    places += object("metadata\nMetadataIndex",
                     text("fqn") + text("t") + text("offset") + size_of(box.offsets)) +
              object("filesystem\n_StorageInfo",
                     text("relative_path") + text("__0_0.distcp") + text("offset") + "J" +
                         raw(static_cast<std::int32_t>(items.size())) + text("length") + "J" +
                         raw(static_cast<std::int32_t>(item.size())));
    items += item;
  }
  const std::string properties =
      "ctorch.distributed.checkpoint.metadata\nTensorProperties\n)\x81(ctorch\nfloat32\ntb";
  const std::string tensor = object("metadata\nTensorStorageMetadata",
                                    text("properties") + properties + text("size") +
                                        size_of(shape) + text("chunks") + "](" + chunks + "e");
  write_text(join_path(folder, "__0_0.distcp"), items);
  write_text(
      join_path(folder, ".metadata"),
      "\x80\4"s +
          object("metadata\nMetadata", text("state_dict_metadata") + "}(" + text("t") + tensor +
                                           "u" + text("storage_data") + "}(" + places + "u") +
          ".");
}

std::vector<float> read_all(const DcpFolder& folder) {
  const DcpTensor& tensor = folder.tensors().at(0);
  std::vector<float> values(element_count(tensor.spec));
  DcpValues(folder, tensor).read(0, std::as_writable_bytes(std::span(values)));
  return values;
}

// ---- damage

std::string replaced(std::string bytes, const std::string& from, const std::string& to) {
  REQUIRE(from.size() == to.size());
  bool is_there = false;
  for (std::size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; at += from.size()) {
    bytes.replace(at, from.size(), to);
    is_there = true;
  }
  REQUIRE(is_there);
  return bytes;
}

std::string damage_of(const std::string& metadata) {
  return error_of(ErrorKind::damaged, [&] { parse_dcp_metadata(span_of(metadata), "m"); });
}

void copy_fixture(const std::string& folder) {
  make_directories(folder);
  for (const char* name : {".metadata", "__0_0.distcp", "__1_0.distcp"}) {
    write_text(join_path(folder, name), read_file(join_path(kFixture, name)));
  }
}

std::string import_damage(const std::string& path, const std::string& output) {
  return error_of(ErrorKind::damaged, [&] {
    const DcpFolder folder(path);
    DcpImport import;
    for (const DcpTensor& tensor : folder.tensors()) {
      import.tensors.push_back({&tensor, tensor.spec.name});
    }
    import.output = output;
    import_dcp(folder, import);
  });
}

}  // namespace

TEST_CASE("a checkpoint of PyTorch 2.6 from two ranks holds what PyTorch says") {
  const Json expected = Json::parse(read_file(kFixture + "/expected.json"), "expected.json");
  const DcpFolder folder(kFixture);
  REQUIRE(folder.tensors().size() == 2);
  for (const DcpTensor& tensor : folder.tensors()) {
    CAPTURE(tensor.spec.name);
    const Json& wanted = expected.at("tensors").at(tensor.spec.name);
    CHECK(name_of(tensor.spec.type) == wanted.at("dtype").as_string());
    std::vector<std::byte> bytes(num_bytes_of(tensor.spec));
    DcpValues(folder, tensor).read(0, bytes);
    const Json::Array& values = wanted.at("values").items();
    REQUIRE(element_count(tensor.spec) == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(value_at(tensor.spec.type, bytes.data(), i) == values[i].as_real());
    }
    const Json::Array& chunks = wanted.at("chunks").items();
    REQUIRE(tensor.chunks.size() == chunks.size());
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      CHECK(tensor.chunks[c].item.file == chunks[c].at("file").as_string());
      CHECK(tensor.chunks[c].item.offset ==
            static_cast<std::uint64_t>(chunks[c].at("offset").as_integer()));
    }
  }
  REQUIRE(folder.objects().size() == 3);
  for (const DcpObject& each : folder.objects()) {
    CHECK(folder.value_of(each) == expected.at("objects").at(each.name));
  }
}

TEST_CASE("chunks of any shape are pasted together, read from any place on") {
  struct Tiling {
    Numbers shape;
    std::vector<Box> boxes;
  };
  for (const auto& [shape, boxes] : std::vector<Tiling>{
           {{}, {{{}, {}}}},
           {{0, 3}, {{{0, 0}, {0, 3}}}},
           {{5}, {{{3}, {2}}, {{0}, {3}}}},
           {{4, 6}, {{{0, 0}, {4, 2}}, {{0, 2}, {2, 4}}, {{2, 2}, {2, 4}}}},
           // A pinwheel: no straight cut goes through.
           {{3, 3},
            {{{0, 0}, {1, 2}},
             {{0, 2}, {2, 1}},
             {{2, 1}, {1, 2}},
             {{1, 0}, {2, 1}},
             {{1, 1}, {1, 1}}}},
           {{2, 3, 4},
            {{{0, 0, 0}, {2, 3, 1}},
             {{0, 0, 1}, {1, 3, 3}},
             {{1, 0, 1}, {1, 2, 3}},
             {{1, 2, 1}, {1, 1, 3}}}},
       }) {
    const TestFolder scratch;
    write_checkpoint(scratch / "c", shape, boxes);
    const DcpFolder folder(scratch / "c");
    const std::vector<float> values = read_all(folder);
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == static_cast<float>(i));
    const DcpValues reader(folder, folder.tensors()[0]);
    for (std::size_t first = 0; first < values.size(); ++first) {
      for (std::size_t count = 1; first + count <= values.size(); ++count) {
        std::vector<float> part(count, -1);
        reader.read(first, std::as_writable_bytes(std::span(part)));
        CHECK(std::equal(part.begin(), part.end(), values.begin() + static_cast<Index>(first)));
      }
    }
  }
}

TEST_CASE("chunks that overlap, leave gaps or leave the tensor are refused") {
  const TestFolder scratch;
  const auto damage = [&](const Numbers& shape, const std::vector<Box>& boxes) {
    remove_all(scratch / "c");
    write_checkpoint(scratch / "c", shape, boxes);
    return damage_of(read_file(scratch / "c/.metadata"));
  };
  CHECK(damage({4, 4}, {{{0, 0}, {2, 4}}, {{2, 0}, {2, 4}}}) == "");
  CHECK(damage({4, 4}, {{{0, 0}, {2, 4}}}).find("hold 8 of 16") != std::string::npos);
  CHECK(damage({4, 4}, {}).find("hold 0 of 16") != std::string::npos);
  CHECK(damage({4, 4}, {{{0, 0}, {4, 4}}, {{1, 1}, {1, 1}}}).find("overlap") != std::string::npos);
  // As many values as the tensor has, some of them twice.
  CHECK(damage({4, 4}, {{{0, 0}, {3, 4}}, {{2, 0}, {1, 4}}}).find("overlap") != std::string::npos);
  CHECK(damage({4, 4}, {{{0, 0}, {4, 2}}, {{0, 1}, {4, 2}}}).find("overlap") != std::string::npos);
  CHECK(damage({4, 4}, {{{0, 0}, {5, 4}}}).find("takes [0, 5) of dim 0, which has 4") !=
        std::string::npos);
  CHECK(damage({4, 4}, {{{5, 0}, {0, 4}}}).find("of dim 0") != std::string::npos);
  CHECK(damage({4, 4}, {{{0, 0, 0}, {4, 4, 1}}}).find("has 3 dims, the tensor 2") !=
        std::string::npos);
}

TEST_CASE("planted faults in .metadata are found") {
  const std::string good = read_file(kFixture + "/.metadata");
  CHECK(damage_of(good) == "");
  struct Fault {
    std::string from, to;
    const char* message;
  };
  for (const auto& [from, to, message] : std::vector<Fault>{
           {"_get_layout", "system_call", "names \"torch.serialization system_call\""},
           {"__0_0.distcp", "../_0.distcp", "no name of a file in this folder"},
           {"__0_0.distcp", "/etc/passwd\0"s, "no name of a file in this folder"},
           {"__0_0.distcp", "a/../../b/cd", "no name of a file in this folder"},
           {"K\6K\4\x86", "K\7K\4\x86", "hold 24 of 28"},
           {"K\6K\4\x86", "K\5K\4\x86", "takes [3, 6) of dim 0"},
           {"K\3K\0\x86"s, "K\2K\0\x86"s, "overlap"},
           {"float32", "float99", "names \"torch float99\""},
           {"relative_path", "relative_pith", "has no relative_path"},
           {"storage_data", "storage_date", "has no storage_data"},
           {"\x8c\7model.w\x94h\0"s, "\x8c\7model.v\x94h\0"s, "no place for \"model.v\""},
           {"M\x9c\4u"s, "J\x9c\4u"s, ""},
           {"MetadataIndex", "MetadataIndix", "MetadataIndix"},
       }) {
    CAPTURE(from);
    const std::string damage = damage_of(replaced(good, from, to));
    CHECK(damage.starts_with("m: "));
    CHECK(damage.find(message) != std::string::npos);
    CHECK(damage.find('\n') == std::string::npos);
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(damage_of(good.substr(0, size)).starts_with("m: "));
  }
  // Any single changed byte gives a checkpoint or a refusal, nothing else.
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char change : {'\1', '\x80', '\xff'}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      damage_of(bytes);
    }
  }
}

TEST_CASE("planted faults in files are found, and an import leaves nothing behind") {
  const TestFolder scratch;
  const std::string path = scratch / "c", output = scratch / "out/model";
  const auto damage = [&](const std::function<void()>& change) {
    remove_all(path);
    copy_fixture(path);
    change();
    const std::string message = import_damage(path, output);
    CHECK((!is_directory(scratch / "out") || list_directory(scratch / "out").empty()));
    return message;
  };
  CHECK(damage([&] { remove_all(path + "/.metadata"); }).find("was not finished") !=
        std::string::npos);
  CHECK(damage([&] { remove_all(path + "/__1_0.distcp"); }).find("is missing") !=
        std::string::npos);
  CHECK(damage([&] { cut_file(path + "/__1_0.distcp", 4951); }).find("should lie at") !=
        std::string::npos);
  // The values of the first chunk begin behind its local header.
  CHECK(damage([&] { flip_bit(path + "/__0_0.distcp", 8 * 470); }).find("the checksum of") !=
        std::string::npos);
  const auto metadata = [&](const std::string& from, const std::string& to) {
    write_text(path + "/.metadata", replaced(read_file(path + "/.metadata"), from, to));
  };
  CHECK(damage([&] { metadata("float32", "float64"); }).find("states F64 [3, 4]") !=
        std::string::npos);
  CHECK(damage([&] { metadata("M\x20\x0a"s, "M\x21\x0a"s); }).find("tensor \"model.w\"") !=
        std::string::npos);
}

TEST_CASE("archives whose parts do not fit together are refused") {
  const std::string pickle = tensor_pickle({2, 2}, {2, 1}, 4), values(16, '\1');
  const auto damage = [&](const std::string& archive) {
    return error_of(ErrorKind::damaged,
                    [&] { read_torch_tensor(TorchArchive(span_of(archive), "a")); });
  };
  const std::string good = zip_of({{"data.pkl", pickle}, {"data/0", values}});
  CHECK(damage(good) == "");
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(damage(good.substr(0, size)).starts_with("a: "));
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ '\x81');
    damage(bytes);
  }
  const auto with = [&](const std::string& other, const std::string& bytes) {
    return damage(zip_of({{"data.pkl", other}, {"data/0", bytes}}));
  };
  CHECK(with(pickle, values + "x").find("data/\"0\" has 17 bytes") != std::string::npos);
  CHECK(with(tensor_pickle({2, 2}, {2, 1}, 3), std::string(12, 'x')).find("needs 16 bytes") !=
        std::string::npos);
  CHECK(with(tensor_pickle({2, 2}, {2, 1}, 4, 1), values).find("from value 1 on") !=
        std::string::npos);
  CHECK(with(tensor_pickle({2, 2}, {1, 2}, 4), values).find("not packed") != std::string::npos);
  CHECK(with(tensor_pickle({2, 2}, {2}, 4), values).find("strides") != std::string::npos);
  CHECK(with(tensor_pickle({65536, 65536, 65536, 65536}, {1, 1, 1, 1}, 4), values)
            .find("above any file") != std::string::npos);
  CHECK(with(tensor_pickle({2, 2}, {2, 1}, 4, 0, "EvilStorage"), values)
            .find("names \"torch EvilStorage\"") != std::string::npos);
  CHECK(with("K\7."s, values).find("expected an object") != std::string::npos);
  CHECK(damage(zip_of({{"data.pkl", pickle}})).find("has no entry \"data/0\"") !=
        std::string::npos);
  CHECK(damage(zip_of({{"byteorder", "big"}})).find("big-endian") != std::string::npos);
  CHECK(damage(zip_of({{"data.pkl", pickle}}, 8)).find("compressed") != std::string::npos);
}

TEST_CASE("values that are too deep, too many or no plain values are not shown") {
  const auto value = [](const std::string& pickle) {
    const std::string archive = zip_of({{"data.pkl", pickle}});
    return error_of(ErrorKind::damaged,
                    [&] { read_torch_object(TorchArchive(span_of(archive), "a")); });
  };
  CHECK(value("}(\x8c\1a(K\1K\2tu."s) == "");
  CHECK(value("]q\0h\0a."s).find("too deep") != std::string::npos);
  // Each level holds the one before twice: 2^12 values from a few bytes.
  std::string bomb = "]q\0"s;
  for (char level = 1; level < 15; ++level) {
    bomb +=
        "](h"s + static_cast<char>(level - 1) + "h" + static_cast<char>(level - 1) + "eq" + level;
  }
  CHECK(value(bomb + std::string(14, 'a') + ".").find("too") != std::string::npos);
  CHECK(value("ccollections\nOrderedDict\n)R."s).find("holds an object") != std::string::npos);
}

TEST_CASE("an import gives safetensors files, one or several, whole or not at all") {
  const TestFolder scratch;
  const DcpFolder folder(kFixture);
  DcpImport import;
  for (const DcpTensor& tensor : folder.tensors()) {
    import.tensors.push_back({&tensor, tensor.spec.name.substr(6)});
  }
  import.output = scratch / "one";
  CHECK(import_dcp(folder, import).num_bytes == 104);
  const HfFolder one(scratch / "one");
  CHECK(one.names() == std::vector<std::string>{"b", "w"});
  CHECK(value_at(StorageType::f32, one.tensor("w").bytes.data(), 23) == 23);
  CHECK(error_of(ErrorKind::usage, [&] { import_dcp(folder, import); }).find("is there already") !=
        std::string::npos);

  import.output = scratch / "two";
  import.max_shard_bytes = 100;
  import.copied_files = {{ kFixture + "/expected.json", "config.json" }};
  CHECK(import_dcp(folder, import).files.size() == 2);
  const HfFolder two(scratch / "two");
  CHECK(two.names() == one.names());
  CHECK(std::equal(two.tensor("b").bytes.begin(), two.tensor("b").bytes.end(),
                   one.tensor("b").bytes.begin()));
  CHECK(read_file(scratch / "two/config.json") == read_file(kFixture + "/expected.json"));

  import.output = scratch / "killed";
  CHECK(run_in_child([&] {
          arm_fault_point("import.rename=kill");
          import_dcp(folder, import);
        }) == 137);
  CHECK(!is_directory(scratch / "killed"));
  import_dcp(folder, import);
  CHECK(list_directory(scratch / "killed").size() == 4);
  import.output = scratch / "ended";
  CHECK_THROWS_AS(import_dcp(folder, import, [](Index) { throw 7; }), int);
  CHECK(list_directory(scratch.path()).size() == 3);
}

}  // namespace zaya
