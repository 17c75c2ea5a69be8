// SPDX-License-Identifier: Apache-2.0
#include "data/mds.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"

namespace zaya {

namespace {

constexpr std::string_view kArray = "ndarray";

template <class... Args>
[[noreturn]] void damaged(std::string_view where, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Error{ErrorKind::damaged,
              fmt::format("{}: {}", where, fmt::format(format, std::forward<Args>(args)...))};
}

// "int32" and so on; none for what is no integer.
std::optional<IntegerFormat> integer_from_name(std::string_view name) {
  struct Named {
    std::string_view name;
    IntegerFormat format;
  };
  static constexpr Named kIntegers[] = {
      {"uint8", {1, false, false}},  {"int8", {1, true, false}},    {"uint16", {2, false, false}},
      {"int16", {2, true, false}},   {"uint32", {4, false, false}}, {"int32", {4, true, false}},
      {"uint64", {8, false, false}}, {"int64", {8, true, false}},
  };
  for (const Named& named : kIntegers) {
    if (named.name == name) return named.format;
  }
  return std::nullopt;
}

// The byte that begins a value of the encoding ndarray.
std::optional<IntegerFormat> integer_from_code(unsigned code) {
  switch (code) {
    case 8: return IntegerFormat{1, false, false};
    case 9: return IntegerFormat{1, true, false};
    case 16: return IntegerFormat{2, false, false};
    case 17: return IntegerFormat{2, true, false};
    case 32: return IntegerFormat{4, false, false};
    case 33: return IntegerFormat{4, true, false};
    case 64: return IntegerFormat{8, false, false};
    case 65: return IntegerFormat{8, true, false};
    default: return std::nullopt;
  }
}

// A file name that stays below the folder.
bool stays_inside(std::string_view name) {
  if (name.empty() || name.find('\0') != std::string_view::npos) return false;
  while (true) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

Index count_from(const Json& json, std::string_view key) {
  const Index value = json.at(key).as_integer();
  if (value < 0) {
    throw Error{ErrorKind::damaged, fmt::format("{} is {}, below 0", key, value)};
  }
  return value;
}

MdsFile file_from(const Json& json) {
  MdsFile file;
  file.name = json.at("basename").as_string();
  if (!stays_inside(file.name)) {
    throw Error{ErrorKind::damaged,
                fmt::format("the file name {} leaves the folder", json_quote(file.name))};
  }
  file.bytes = count_from(json, "bytes");
  if (const Json* hashes = json.find("hashes"); hashes != nullptr && !hashes->is_null()) {
    for (const auto& [name, value] : hashes->members()) {
      file.hashes.emplace_back(name, value.as_string());
    }
  }
  return file;
}

std::vector<MdsColumn> columns_from(const Json& json) {
  const Json::Array& names = json.at("column_names").items();
  const Json::Array& encodings = json.at("column_encodings").items();
  const Json::Array& sizes = json.at("column_sizes").items();
  if (names.size() != encodings.size() || names.size() != sizes.size()) {
    throw Error{ErrorKind::damaged,
                "column_names, column_encodings and column_sizes differ in "
                "length"};
  }
  std::vector<MdsColumn> columns;
  for (std::size_t i = 0; i < names.size(); ++i) {
    columns.push_back({names[i].as_string(), encodings[i].as_string(), std::nullopt});
    if (sizes[i].is_null()) continue;
    columns.back().size = sizes[i].as_integer();
    if (*columns.back().size < 0) {
      throw Error{ErrorKind::damaged,
                  fmt::format("column {} has a size below 0", json_quote(columns.back().name))};
    }
  }
  return columns;
}

void check_compression(const Json& json, bool has_zip) {
  const Json* value = json.find("compression");
  if (value == nullptr || value->is_null()) {
    if (has_zip) throw Error{ErrorKind::damaged, "zip_data without compression"};
    return;
  }
  const std::string& text = value->as_string();
  const std::string name = text.substr(0, text.find(':'));
  if (!has_zip || name == "zstd" || name == "gz") return;
  throw Error{ErrorKind::usage,
              fmt::format("compression {} can't be undone here; write the data set anew with "
                          "compression zstd, or none",
                          json_quote(text))};
}

MdsShardInfo shard_from(const Json& json) {
  MdsShardInfo shard;
  if (json.at("format").as_string() != "mds" || json.at("version").as_integer() != 2) {
    throw Error{ErrorKind::damaged,
                fmt::format("format {}, version {}; format mds, version 2 is known",
                            json.at("format").dump(), json.at("version").dump())};
  }
  shard.raw = file_from(json.at("raw_data"));
  if (const Json* zip = json.find("zip_data"); zip != nullptr && !zip->is_null()) {
    shard.zip = file_from(*zip);
  }
  check_compression(json, shard.zip.has_value());
  shard.num_samples = count_from(json, "samples");
  shard.columns = columns_from(json);
  return shard;
}

std::string list_of(const std::vector<MdsColumn>& columns) {
  std::string text;
  for (const MdsColumn& column : columns) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", printable(column.name),
                        printable(column.encoding));
  }
  return text;
}

// The number of values that a static shape such as "2,3" states, or none.
std::optional<Index> shape_size(std::string_view text) {
  Index size = 1;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view dim = text.substr(0, comma);
    Index value = -1;
    const auto [end, failure] = std::from_chars(dim.data(), dim.data() + dim.size(), value);
    if (failure != std::errc{} || end != dim.data() + dim.size() || value < 0) return std::nullopt;
    if (value > 0 && size > std::numeric_limits<std::int32_t>::max() / value) return std::nullopt;
    size *= value;
    if (comma == std::string_view::npos) return size;
    text.remove_prefix(comma + 1);
  }
}

// The encoding "ndarray[:DTYPE[:SHAPE]]".
MdsTokens array_layout(const MdsColumn& column, std::size_t number, std::string_view where) {
  MdsTokens layout{number, std::nullopt, true};
  std::string_view rest = std::string_view(column.encoding).substr(kArray.size());
  if (rest.empty()) return layout;
  rest.remove_prefix(1);
  const std::size_t colon = rest.find(':');
  layout.format = integer_from_name(rest.substr(0, colon));
  if (!layout.format)
    damaged(where, "column {} is {}, no token ids", printable(column.name),
            printable(column.encoding));
  if (colon == std::string_view::npos) return layout;
  layout.has_shape = false;
  const std::optional<Index> count = shape_size(rest.substr(colon + 1));
  if (!count || !column.size || *column.size != *count * layout.format->bytes) {
    damaged(where, "column {} is {}, which does not go with its size in column_sizes",
            printable(column.name), printable(column.encoding));
  }
  return layout;
}

}  // namespace

std::vector<MdsShardInfo> parse_mds_index(std::string_view text, const std::string& where) {
  const Json json = Json::parse(text, where);
  std::vector<MdsShardInfo> shards;
  Index number = 0;
  try {
    if (json.at("version").as_integer() != 2) {
      throw Error{ErrorKind::damaged, "version " + json.at("version").dump() + ", only 2 is known"};
    }
    for (const Json& shard : json.at("shards").items()) {
      shards.push_back(shard_from(shard));
      ++number;
    }
  } catch (const Error& error) {
    throw Error{error.kind(), fmt::format("{}: shard {}: {}", where, number, error.message())};
  }
  return shards;
}

MdsTokens find_mds_tokens(const MdsShardInfo& shard, const std::string& name,
                          const std::string& bytes_type, std::string_view where) {
  const auto found = std::find_if(shard.columns.begin(), shard.columns.end(),
                                  [&](const MdsColumn& column) { return column.name == name; });
  if (found == shard.columns.end()) {
    throw Error{ErrorKind::usage,
                fmt::format("{}: has no column {}; choose one with --mds-column: {}", where,
                            json_quote(name), list_of(shard.columns))};
  }
  const auto number = static_cast<std::size_t>(found - shard.columns.begin());
  const std::string& encoding = found->encoding;
  if (encoding == kArray || encoding.starts_with("ndarray:")) {
    return array_layout(*found, number, where);
  }
  if (encoding == "bytes") {
    if (bytes_type.empty()) {
      throw Error{ErrorKind::usage,
                  fmt::format("{}: column {} is plain bytes; say what they are with --mds-dtype: "
                              "int64 (older LLM-foundry), int32 (newer)",
                              where, name)};
    }
    const std::optional<IntegerFormat> format = integer_from_name(bytes_type);
    ZAYA_CHECK(format.has_value(), bytes_type);
    return {number, format, false};
  }
  damaged(where, "column {} has the encoding {}, which holds no array of ids; the columns: {}{}",
          name, printable(encoding), list_of(shard.columns),
          encoding == "pkl" ? "; pickles are never loaded" : "");
}

MdsShard::MdsShard(std::span<const std::byte> bytes, const MdsShardInfo& info, std::string where)
    : bytes_(bytes), info_(info), where_(std::move(where)) {
  const Index size = static_cast<Index>(bytes.size());
  if (size != info.raw.bytes) {
    damaged(where_, "has {} bytes, index.json states {}", size, info.raw.bytes);
  }
  // No product: the number of samples is any number so far.
  if (size < 8 || info.num_samples > (size - 8) / 4) {
    damaged(where_, "has {} bytes, too few for {} samples", size, info.num_samples);
  }
  if (word_at(0) != info.num_samples) {
    damaged(where_, "holds {} samples, index.json states {}", word_at(0), info.num_samples);
  }
  Index before = 8 + 4 * info.num_samples;
  for (Index i = 0; i <= info.num_samples; ++i) {
    const Index at = word_at(4 + 4 * i);
    if (at < before || at > size) damaged(where_, "sample {} begins at byte {}", i, at);
    before = at;
  }
  if (before != size) damaged(where_, "has {} bytes behind its last sample", size - before);
}

std::uint32_t MdsShard::word_at(Index offset) const {
  std::uint32_t value;
  std::memcpy(&value, bytes_.data() + offset, sizeof value);
  return value;
}

std::span<const std::byte> MdsShard::value(Index i, std::size_t column) const {
  const Index begin = word_at(4 + 4 * i), end = word_at(8 + 4 * i);
  Index lengths_at = begin, at = begin;
  for (const MdsColumn& each : info_.columns) at += each.size ? 0 : 4;
  if (at > end) damaged(where_, "sample {} ends inside the lengths of its columns", i);
  Index value_begin = 0, value_size = 0;
  for (std::size_t c = 0; c < info_.columns.size(); ++c) {
    const bool has_length = !info_.columns[c].size;
    const Index size = has_length ? word_at(lengths_at) : *info_.columns[c].size;
    if (has_length) lengths_at += 4;
    if (size > end - at) {
      damaged(where_, "sample {} ends inside its column {}", i, printable(info_.columns[c].name));
    }
    if (c == column) {
      value_begin = at;
      value_size = size;
    }
    at += size;
  }
  if (at != end) damaged(where_, "sample {} has {} bytes behind its last column", i, end - at);
  return bytes_.subspan(static_cast<std::size_t>(value_begin),
                        static_cast<std::size_t>(value_size));
}

MdsValues MdsShard::tokens(Index i, const MdsTokens& layout) const {
  std::span<const std::byte> bytes = value(i, layout.column);
  const auto take = [&](std::size_t count) {
    if (bytes.size() < count) damaged(where_, "sample {}: its tokens end too early", i);
    const std::span<const std::byte> taken = bytes.first(count);
    bytes = bytes.subspan(count);
    return taken;
  };
  MdsValues values;
  if (layout.format) {
    values.format = *layout.format;
  } else {
    const auto code = static_cast<unsigned>(take(1)[0]);
    const std::optional<IntegerFormat> format = integer_from_code(code);
    if (!format) damaged(where_, "sample {}: values of type code {} are no token ids", i, code);
    values.format = *format;
  }
  if (layout.has_shape) {
    const auto form = static_cast<unsigned>(take(1)[0]);
    const IntegerFormat dim{1 << (form & 3), false, false};
    const std::span<const std::byte> dims = take(std::size_t{form >> 2} * dim.bytes);
    Index count = 1;
    for (Index d = 0; d < static_cast<Index>(form >> 2); ++d) {
      const Index size = integer_at(dim, dims.data(), d);
      if (size < 0 || (size > 0 && count > std::numeric_limits<Index>::max() / size)) {
        damaged(where_, "sample {}: a dim of {}", i, size);
      }
      count *= size;
    }
    if (count != static_cast<Index>(bytes.size()) / values.format.bytes) {
      damaged(where_, "sample {}: {} values stated, {} bytes found", i, count, bytes.size());
    }
  }
  if (bytes.size() % static_cast<std::size_t>(values.format.bytes) != 0) {
    damaged(where_, "sample {}: {} bytes are no whole number of {}-byte ids", i, bytes.size(),
            values.format.bytes);
  }
  values.bytes = bytes;
  return values;
}

}  // namespace zaya
