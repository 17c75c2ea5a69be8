// SPDX-License-Identifier: Apache-2.0
#include "data/mds.h"

#include <doctest/doctest.h>

#include <cstring>

#include "base/checksums.h"
#include "base/json.h"
#include "data/testing.h"

namespace zaya {

namespace {

const std::string kFixtures = std::string(ZAYA_TEST_DATA) + "/mds";

using Row = std::vector<Index>;

std::vector<Row> rows_of(const std::string& folder, MdsOptions options) {
  MdsFolder source(folder, std::move(options));
  TokenBatch batch;
  std::vector<Row> rows;
  bool is_new = true;
  while (source.next(batch)) {
    if (is_new) rows.emplace_back();
    rows.back().insert(rows.back().end(), batch.tokens.begin(), batch.tokens.end());
    is_new = batch.ends_row;
  }
  CHECK(source.consumed() == source.num_bytes());
  return rows;
}

std::string word(std::uint32_t value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return bytes;
}

// A raw shard of these samples.
std::string shard_of(const std::vector<std::string>& samples) {
  const std::string columns = "{}";
  auto at = static_cast<std::uint32_t>(8 + 4 * samples.size() + columns.size());
  std::string bytes = word(static_cast<std::uint32_t>(samples.size())) + word(at);
  for (const std::string& sample : samples) {
    bytes += word(at += static_cast<std::uint32_t>(sample.size()));
  }
  bytes += columns;
  for (const std::string& sample : samples) bytes += sample;
  return bytes;
}

std::span<const std::byte> span_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

MdsShardInfo info_of(const std::string& bytes, Index num_samples, std::vector<MdsColumn> columns) {
  MdsShardInfo info;
  info.raw = {"s.mds", static_cast<Index>(bytes.size()), {}};
  info.num_samples = num_samples;
  info.columns = std::move(columns);
  return info;
}

// The first sample of a shard with one column of this encoding and value.
Row decode(const std::string& encoding, const std::string& value, std::optional<Index> size = {},
           const std::string& bytes_type = "") {
  const std::string sample = size ? value : word(static_cast<std::uint32_t>(value.size())) + value;
  const std::string bytes = shard_of({sample});
  const MdsShardInfo info = info_of(bytes, 1, {{"tokens", encoding, size}});
  const MdsTokens layout = find_mds_tokens(info, "tokens", bytes_type, "index.json");
  const MdsValues values = MdsShard(span_of(bytes), info, "s").tokens(0, layout);
  Row row;
  for (Index i = 0; i < values.count(); ++i) {
    row.push_back(integer_at(values.format, values.bytes.data(), i));
  }
  return row;
}

std::string failure_of_decode(const std::string& encoding, const std::string& value,
                              std::optional<Index> size = {}) {
  return failure_of([&] { decode(encoding, value, size); });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a compressed data set gives the tokens that its own decoder gives") {
  const TestFolder folder;
  const Json expected = Json::parse(read_file(kFixtures + "/expected.json"), "expected.json");
  std::vector<Row> wanted;
  for (const Json& sample : expected.at("samples").items()) {
    wanted.emplace_back();
    for (const Json& token : sample.at("tokens").items()) {
      wanted.back().push_back(token.as_integer());
    }
  }
  MdsOptions options;
  options.scratch_path = folder / "scratch";
  CHECK(rows_of(kFixtures, options) == wanted);
  CHECK(!is_file(options.scratch_path));
}

TEST_CASE("all encodings of ids are understood") {
  using namespace std::string_literals;
  CHECK(decode("ndarray:int32:2", word(5) + word(6), 8) == Row{5, 6});
  CHECK(decode("ndarray:uint16:2,1", "\1\0\2\0"s, 4) == Row{1, 2});
  // ndim 1, sizes of one byte: 3 values.
  CHECK(decode("ndarray:uint8", "\x04\x03\7\x08\x09"s) == Row{7, 8, 9});
  // ndim 2, sizes of two bytes.
  CHECK(decode("ndarray:uint8", "\x09\x01\0\x02\0\7\x08"s) == Row{7, 8});
  CHECK(decode("ndarray", "\x10\x04\x02\1\0\2\0"s) == Row{1, 2});
  CHECK(decode("ndarray", "\x41\x00\1\0\0\0\0\0\0\0"s) == Row{1});
  CHECK(decode("bytes", word(9) + word(8), {}, "int32") == Row{9, 8});
  CHECK(decode("bytes", word(9) + word(0), {}, "int64") == Row{9});
  CHECK(decode("ndarray:int64:0", "", 0).empty());
}

TEST_CASE("values that are no ids, or do not fit their own description, are refused") {
  using namespace std::string_literals;
  struct Bad {
    const char* encoding;
    std::string value;
    const char* message;
  };
  for (const auto& [encoding, value, message] : std::vector<Bad>{
           {"pkl", "x", "pickles are never loaded"},
           {"str", "x", "holds no array of ids"},
           {"ndarray:float32", "x", "no token ids"},
           {"ndarray:int32:x", "x", "does not go with its size"},
           {"ndarray", "\x22\x04\x01\1\0\0\0"s, "type code 34"},
           {"ndarray", "", "end too early"},
           {"ndarray", "\x10", "end too early"},
           {"ndarray", "\x10\x08\x02"s, "end too early"},
           {"ndarray", "\x10\x04\x03\1\0\2\0"s, "3 values stated"},
           {"ndarray:uint16", "\x04\x01\1\0\2"s, "no whole number"},
           {"ndarray:uint8", "\x0b\xff\xff\xff\xff\xff\xff\xff\xff\1\0\0\0\0\0\0\0"s, "a dim of"},
           {"ndarray:uint8", "\x0b\xff\xff\xff\xff\xff\xff\xff\x7f\2\0\0\0\0\0\0\0"s, "a dim of"},
       }) {
    CAPTURE(encoding);
    CAPTURE(message);
    const std::string failure = failure_of_decode(encoding, value);
    CHECK(failure.starts_with("3 "));
    CHECK(failure.find(message) != std::string::npos);
  }
  CHECK(failure_of_decode("bytes", "x").find("--mds-dtype") != std::string::npos);
  CHECK(failure_of_decode("ndarray:int32:2", "x", 4).find("does not go with") != std::string::npos);
}

TEST_CASE("a shard whose offsets, counts or sizes do not fit is refused") {
  const std::vector<MdsColumn> columns = {{"id", "int", 8}, {"text", "str", std::nullopt}};
  const std::string sample = word(2) + "12345678" + "ab";
  const std::string good = shard_of({sample, sample});
  const auto open = [&](const std::string& bytes, Index num_samples) {
    const MdsShardInfo info = info_of(bytes, num_samples, columns);
    const MdsShard shard(span_of(bytes), info, "s");
    for (Index i = 0; i < shard.num_samples(); ++i) shard.tokens(i, {0, IntegerFormat{}, false});
  };
  CHECK(failure_of([&] { open(good, 2); }) == "no error");
  CHECK(failure_of([&] { open(good, 3); }).find("holds 2 samples") != std::string::npos);
  CHECK(failure_of([&] { open(good, Index{1} << 60); }).find("too few") != std::string::npos);
  const auto changed = [&](std::size_t at, std::uint32_t value) {
    return std::string(good).replace(at, 4, word(value));
  };
  CHECK(failure_of([&] { open(changed(4, 0), 2); }).find("sample 0 begins") != std::string::npos);
  CHECK(failure_of([&] { open(changed(8, 9999), 2); }).find("sample 1 begins") !=
        std::string::npos);
  CHECK(failure_of([&] { open(changed(12, 32), 2); }).starts_with("3 s: "));
  CHECK(failure_of([&] { open(changed(12, 45), 2); }).find("behind its last sample") !=
        std::string::npos);
  // The length of the text.
  CHECK(failure_of([&] { open(changed(18, 3), 2); }).find("inside its column text") !=
        std::string::npos);
  CHECK(failure_of([&] { open(changed(18, 1), 2); }).find("behind its last column") !=
        std::string::npos);
}

TEST_CASE("an index that names files outside its folder, or what can't be read, is refused") {
  const std::string good = read_file(kFixtures + "/index.json");
  CHECK(parse_mds_index(good, "i").size() == 2);
  struct Change {
    const char *from, *to, *message;
  };
  for (const auto& [from, to, message] : std::vector<Change>{
           {"shard.00001.mds.zstd", "../x", "3 i: shard 1: the file name \"../x\" leaves"},
           {"shard.00001.mds\"", "/etc/passwd\"", "leaves"},
           {"shard.00001.mds\"", "a/./b\"", "leaves"},
           {"zstd:7", "br", "2 i: shard 0: compression"},
           {"\"mds\"", "\"xds\"", "format mds"},
           {"\"samples\": 4", "\"samples\": -4", "below 0"},
           {"[8, null, 24]", "[8, null]", "differ in length"},
       }) {
    CAPTURE(from);
    const std::string changed = replaced(good, from, to);
    CHECK(failure_of([&] { parse_mds_index(changed, "i"); }).find(message) != std::string::npos);
  }
  const MdsShardInfo info = parse_mds_index(good, "i")[0];
  CHECK(failure_of([&] {
          find_mds_tokens(info, "ids", "", "i");
        }).find("tokens (ndarray:int32:6)") != std::string::npos);
}

TEST_CASE("a changed byte, a missing shard and a bomb are found; a sha1 is checked too") {
  const TestFolder folder;
  const std::string index = read_file(kFixtures + "/index.json");
  const std::string shard0 = read_file(kFixtures + "/shard.00000.mds.zstd");
  const std::string shard1 = read_file(kFixtures + "/shard.00001.mds.zstd");
  const auto failure = [&](const std::string& text, const std::string& first) {
    folder.write("d/index.json", text);
    folder.write("d/shard.00000.mds.zstd", first);
    folder.write("d/shard.00001.mds.zstd", shard1);
    MdsOptions options;
    options.scratch_path = folder / "scratch";
    return failure_of([&] { rows_of(folder / "d", options); });
  };
  CHECK(failure(index, shard0) == "no error");
  std::string changed = shard0;
  changed[100] = static_cast<char>(changed[100] ^ 1);
  CHECK(failure(index, changed).find("its xxh64 is") != std::string::npos);
  CHECK(failure(index, shard0 + "x").find("index.json states 353") != std::string::npos);
  CHECK(failure(replaced(index, "\"bytes\": 436", "\"bytes\": 400"), shard0)
            .find("unpacks to more than the 400 bytes") != std::string::npos);
  CHECK(failure(replaced(index, "\"bytes\": 436", "\"bytes\": 437"), shard0)
            .find("unpacked: has 436 bytes") != std::string::npos);
  const std::string sha1 = *hex_digest("sha1", span_of(shard0));
  const std::string with_sha1 =
      replaced(index, "{\"xxh64\": \"27b6d4baadd68ffa\"}", "{\"sha1\": \"" + sha1 + "\"}");
  CHECK(failure(with_sha1, shard0) == "no error");
  CHECK(failure(replaced(with_sha1, sha1, std::string(40, '0')), shard0).find("its sha1 is") !=
        std::string::npos);
  remove_all(folder / "d/shard.00001.mds.zstd");
  CHECK(failure_of([&] { MdsFolder(folder / "d", {}); }).find("is missing") != std::string::npos);
}

}  // namespace zaya
