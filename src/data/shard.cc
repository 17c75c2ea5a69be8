// SPDX-License-Identifier: Apache-2.0
#include "data/shard.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"

namespace zaya {

namespace {

constexpr Index kMaxScannedTokens = Index{1} << 26;
constexpr Index kScanBlock = 4096;
constexpr std::size_t kHashBlockBytes = 1 << 24;

template <class Stored, class Value>
void convert(const std::byte* bytes, Index count, Value* out) {
  for (Index i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, bytes + i * static_cast<Index>(sizeof value), sizeof value);
    out[i] = static_cast<Value>(value);
  }
}

template <class Value>
void convert_tokens(TokenType type, const std::byte* bytes, Index count, Value* out) {
  switch (type) {
    case TokenType::u8: return convert<std::uint8_t>(bytes, count, out);
    case TokenType::i8: return convert<std::int8_t>(bytes, count, out);
    case TokenType::i16: return convert<std::int16_t>(bytes, count, out);
    case TokenType::i32: return convert<std::int32_t>(bytes, count, out);
    case TokenType::i64: return convert<std::int64_t>(bytes, count, out);
    case TokenType::u16: return convert<std::uint16_t>(bytes, count, out);
  }
}

Index count_at(const Json& json, std::string_view key) { return json.at(key).as_integer(); }

Index id_at(const Json& json, std::string_view key) {
  return json.at(key).is_null() ? -1 : count_at(json, key);
}

Json id_or_null(Index id) { return id < 0 ? Json() : Json(id); }

void check_files(const std::string& prefix) {
  const bool has_bin = is_file(bin_path(prefix)), has_idx = is_file(idx_path(prefix));
  if (has_bin && has_idx) return;
  if (has_bin != has_idx) {
    throw Error{ErrorKind::damaged, fmt::format("{} is missing beside {}: a token file is both",
                                                has_bin ? idx_path(prefix) : bin_path(prefix),
                                                has_bin ? bin_path(prefix) : idx_path(prefix))};
  }
  const bool has_ending = prefix.ends_with(".bin") || prefix.ends_with(".idx");
  throw Error{ErrorKind::usage,
              fmt::format("{}: no such token file; {}", bin_path(prefix),
                          has_ending ? "give the prefix, without .bin or .idx"
                                     : "make it with zaya prepare --output " + prefix)};
}

}  // namespace

std::string digest_text(const Hash128& digest) { return "xxh3-128:" + to_hex(digest); }

std::string bin_path(const std::string& prefix) { return prefix + ".bin"; }
std::string idx_path(const std::string& prefix) { return prefix + ".idx"; }
std::string info_path(const std::string& prefix) { return prefix + ".json"; }

Json ShardInfo::to_json() const {
  Json json = Json::object();
  json.set("format", "zaya-tokens");
  json.set("version", 1);
  json.set("tokenizer_digest", tokenizer_digest);
  json.set("vocabulary_size", vocabulary_size);
  json.set("eod_id", id_or_null(eod_id));
  json.set("appends_eod", appends_eod);
  json.set("bos_id", id_or_null(bos_id));
  json.set("largest_id", id_or_null(largest_id));
  json.set("documents", documents);
  json.set("sequences", sequences);
  json.set("tokens", tokens);
  json.set("arguments_digest", arguments_digest);
  json.set("bin_checksum", bin_checksum);
  Json list = Json::array();
  for (const Source& source : sources) {
    Json entry = Json::object();
    entry.set("path", source.path);
    entry.set("bytes", source.bytes);
    entry.set("documents", source.documents);
    entry.set("tokens", source.tokens);
    list.push(std::move(entry));
  }
  json.set("sources", std::move(list));
  return json;
}

ShardInfo ShardInfo::from_json(const Json& json, const std::string& path) {
  try {
    if (json.at("format").as_string() != "zaya-tokens" || count_at(json, "version") != 1) {
      throw Error{ErrorKind::damaged, "is not the side file of a token file (format, version)"};
    }
    ShardInfo info;
    info.tokenizer_digest = json.at("tokenizer_digest").as_string();
    info.vocabulary_size = count_at(json, "vocabulary_size");
    info.eod_id = id_at(json, "eod_id");
    info.appends_eod = json.at("appends_eod").as_bool();
    info.bos_id = id_at(json, "bos_id");
    info.largest_id = id_at(json, "largest_id");
    info.documents = count_at(json, "documents");
    info.sequences = count_at(json, "sequences");
    info.tokens = count_at(json, "tokens");
    info.arguments_digest = json.at("arguments_digest").as_string();
    // Side files of the first version have none.
    if (const Json* checksum = json.find("bin_checksum")) info.bin_checksum = checksum->as_string();
    for (const Json& entry : json.at("sources").items()) {
      info.sources.push_back({entry.at("path").as_string(), count_at(entry, "bytes"),
                              count_at(entry, "documents"), count_at(entry, "tokens")});
    }
    return info;
  } catch (const Error& error) {
    throw Error{ErrorKind::damaged, fmt::format("{}: {}", path, error.message())};
  }
}

std::optional<ShardInfo> read_shard_info(const std::string& prefix) {
  const std::string side = info_path(prefix);
  if (!is_file(side)) return std::nullopt;
  const MappedFile file(side);
  // Another program may keep a file of this name, which may be large: a side file says early on
  // that it is one.
  if (file.text().substr(0, 200).find("\"zaya-tokens\"") == std::string_view::npos) {
    return std::nullopt;
  }
  return ShardInfo::from_json(Json::parse(file.text(), side), side);
}

Shard::Shard(const std::string& prefix) : prefix_(prefix) {
  check_files(prefix);
  bin_ = MappedFile(bin_path(prefix));
  idx_ = MappedFile(idx_path(prefix));
  index_.emplace(idx_.bytes(), bin_bytes(), idx_path(prefix));
  info_ = read_shard_info(prefix);
}

void Shard::read(Index s, Index begin, Index end, std::int32_t* out) const {
  ZAYA_DCHECK(begin >= 0 && begin <= end && end <= index_->length(s));
  const std::byte* data =
      bin_.bytes().data() + index_->position(s) + begin * bytes_per_token(index_->type());
  convert_tokens(index_->type(), data, end - begin, out);
}

void Shard::read(Index s, Index begin, Index end, std::int64_t* out) const {
  ZAYA_DCHECK(begin >= 0 && begin <= end && end <= index_->length(s));
  const std::byte* data =
      bin_.bytes().data() + index_->position(s) + begin * bytes_per_token(index_->type());
  convert_tokens(index_->type(), data, end - begin, out);
}

TokenRange scan_tokens(const Shard& shard, Index max_tokens) {
  const TokenIndex& index = shard.index();
  TokenRange range{std::numeric_limits<std::int64_t>::max(), -1, true};
  // Looking at one block of each `stride` blocks of a sequence, and at each `stride`-th short one.
  const Index stride = std::max<Index>(1, index.num_tokens() / std::max<Index>(1, max_tokens));
  range.is_exact = stride == 1;
  std::int64_t block[kScanBlock];
  Index num_blocks = 0, num_passed = 0;
  Progress progress("checking " + shard.prefix(), Progress::Unit::items,
                    static_cast<double>(index.num_tokens()));
  for (Index s = 0; s < index.num_sequences(); ++s) {
    const Index length = index.length(s);
    for (Index begin = 0; begin < length; begin += kScanBlock) {
      const Index count = std::min(kScanBlock, length - begin);
      num_passed += count;
      if (num_blocks++ % stride != 0) continue;
      progress.update(static_cast<double>(num_passed));
      shard.read(s, begin, begin + count, block);
      const auto [least, largest] = std::minmax_element(block, block + count);
      range.least = std::min(range.least, *least);
      range.largest = std::max(range.largest, *largest);
    }
  }
  if (range.largest < 0 && range.least > range.largest) range.least = 0;
  return range;
}

namespace {

void check_against_info(const Shard& shard, const TokenRange& range) {
  const ShardInfo& info = *shard.info();
  const TokenIndex& index = shard.index();
  const std::string side = info_path(shard.prefix());
  const auto compare = [&](const char* what, Index stated, Index found) {
    if (stated == found) return;
    throw Error{ErrorKind::damaged,
                fmt::format("{} states {} {}, {} holds {}; were the files mixed up?", side, stated,
                            what, idx_path(shard.prefix()), found)};
  };
  compare("documents", info.documents, index.num_documents());
  compare("sequences", info.sequences, index.num_sequences());
  compare("tokens", info.tokens, index.num_tokens());
  if (range.is_exact && info.largest_id >= 0)
    compare("as largest id", info.largest_id, range.largest);
  if (info.vocabulary_size > 0 && range.largest >= info.vocabulary_size) {
    throw Error{ErrorKind::damaged,
                fmt::format("{}: holds the id {}, its tokenizer has {} ids",
                            bin_path(shard.prefix()), range.largest, info.vocabulary_size)};
  }
}

void check_not_negative(const Shard& shard, const TokenRange& range) {
  if (range.least >= 0) return;
  throw Error{ErrorKind::damaged, fmt::format("{}: holds the id {}; ids are not negative",
                                              bin_path(shard.prefix()), range.least)};
}

void check_checksum(const Shard& shard) {
  if (!shard.info() || shard.info()->bin_checksum.empty()) return;
  const std::string path = bin_path(shard.prefix());
  Progress progress("checking " + path, Progress::Unit::bytes,
                    static_cast<double>(shard.bin_bytes()));
  Hasher hasher;
  const std::span<const std::byte> bytes = shard.bin().bytes();
  for (std::size_t begin = 0; begin < bytes.size(); begin += kHashBlockBytes) {
    const std::size_t count = std::min(kHashBlockBytes, bytes.size() - begin);
    hasher.add(bytes.data() + begin, count);
    shard.bin().dont_need(begin, count);
    progress.update(static_cast<double>(begin + count));
  }
  if (digest_text(hasher.finish()) == shard.info()->bin_checksum) return;
  throw Error{ErrorKind::damaged,
              fmt::format("{}: the checksum is not that of {}; the tokens changed after they were "
                          "written, make or fetch them again",
                          path, info_path(shard.prefix()))};
}

}  // namespace

void verify_shard(const Shard& shard) {
  const TokenRange range = scan_tokens(shard, std::numeric_limits<Index>::max());
  check_not_negative(shard, range);
  if (shard.info()) check_against_info(shard, range);
  check_checksum(shard);
}

void check_usable(const Shard& shard, Index model_vocabulary, const std::string& tokenizer_digest) {
  TokenRange range = scan_tokens(shard, kMaxScannedTokens);
  check_not_negative(shard, range);
  if (shard.info()) {
    check_against_info(shard, range);
    range.largest = std::max(range.largest, shard.info()->largest_id);
  }
  if (range.largest >= model_vocabulary) {
    throw Error{ErrorKind::usage,
                fmt::format("{}: holds the id {}, the model's vocabulary has {} rows; use token "
                            "files of the model's tokenizer, or raise model.vocab_size",
                            bin_path(shard.prefix()), range.largest, model_vocabulary)};
  }
  if (tokenizer_digest.empty()) return;
  if (!shard.info() || shard.info()->tokenizer_digest.empty()) {
    log_info(fmt::format("{}: no side file says which tokenizer made it; taken to be the run's",
                         shard.prefix()));
    return;
  }
  if (shard.info()->tokenizer_digest != tokenizer_digest) {
    throw Error{
        ErrorKind::usage,
        fmt::format("{}: was made with another tokenizer ({}, not {}); name the right one in "
                    "data.tokenizer, or prepare the text again",
                    shard.prefix(), shard.info()->tokenizer_digest, tokenizer_digest)};
  }
}

}  // namespace zaya
