// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_cache.h"

#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "text/table_bytes.h"
#include "text/unicode.h"

namespace zaya {

namespace {

// To be raised whenever the head, a table, hash64 or what the components mean changes.
constexpr std::uint32_t kFormatVersion = 1;
constexpr std::string_view kSuffix = ".zaya-cache";

struct Head {
  char magic[8] = {'Z', 'A', 'Y', 'A', 'T', 'O', 'K', 'C'};
  std::uint32_t version = kFormatVersion, byte_order = 0x01020304;
  std::uint64_t source_low = 0, source_high = 0;
  std::uint64_t num_bytes = 0, zero = 0;
  std::uint64_t checksum_low = 0, checksum_high = 0;
};
static_assert(sizeof(Head) == 64 && std::has_unique_object_representations_v<Head>);

Head head_of(std::string_view tables, Hash128 source) {
  const Hash128 checksum = hash128(tables);
  Head head;
  head.source_low = source.low;
  head.source_high = source.high;
  head.num_bytes = tables.size();
  head.checksum_low = checksum.low;
  head.checksum_high = checksum.high;
  return head;
}

// An added token; its content stands in a text of all contents.
struct AddedEntry {
  TokenId id;
  std::uint32_t length, flags;
};
constexpr std::uint32_t kSingleWord = 1, kStripsLeft = 2, kStripsRight = 4, kNormalized = 8,
                        kSpecial = 16;

void save(const std::vector<AddedToken>& tokens, TableWriter& writer) {
  std::vector<AddedEntry> entries;
  std::string contents;
  for (const AddedToken& token : tokens) {
    entries.push_back(
        {token.id, static_cast<std::uint32_t>(token.content.size()),
         (token.is_single_word ? kSingleWord : 0) | (token.strips_left ? kStripsLeft : 0) |
             (token.strips_right ? kStripsRight : 0) | (token.is_normalized ? kNormalized : 0) |
             (token.is_special ? kSpecial : 0)});
    contents += token.content;
  }
  writer.add(entries);
  writer.add_text(contents);
}

std::vector<AddedToken> load_added_tokens(TableReader& reader) {
  const LargeVector<AddedEntry> entries = reader.take<AddedEntry>();
  const std::string contents = reader.take_text();
  std::vector<AddedToken> tokens;
  std::size_t at = 0;
  for (const AddedEntry& entry : entries) {
    TableReader::require(entry.length <= contents.size() - at, "an added token has no content");
    AddedToken& token = tokens.emplace_back();
    token.content = contents.substr(at, entry.length);
    TableReader::require(is_valid_utf8(token.content), "an added token is not UTF-8");
    at += entry.length;
    TableReader::require(entry.id >= 0 && entry.id < Vocabulary::kIdLimit, "an id out of range");
    token.id = entry.id;
    token.is_single_word = (entry.flags & kSingleWord) != 0;
    token.strips_left = (entry.flags & kStripsLeft) != 0;
    token.strips_right = (entry.flags & kStripsRight) != 0;
    token.is_normalized = (entry.flags & kNormalized) != 0;
    token.is_special = (entry.flags & kSpecial) != 0;
  }
  return tokens;
}

}  // namespace

std::string tokenizer_cache_path(const std::string& tokenizer_path) {
  return join_path(directory_name(tokenizer_path),
                   fmt::format(".{}{}", base_name(tokenizer_path), kSuffix));
}

bool is_tokenizer_cache(std::string_view name) {
  return name.starts_with('.') && name.ends_with(kSuffix);
}

std::string seal_tokenizer_cache(std::string_view tables, Hash128 source) {
  const Head head = head_of(tables, source);
  std::string bytes;
  bytes.reserve(sizeof head + tables.size());
  bytes.append(reinterpret_cast<const char*>(&head), sizeof head);
  return bytes.append(tables);
}

std::string encode_tokenizer_cache(const TokenizerModel& model, Hash128 source) {
  TableWriter writer;
  writer.add_text(model.components.dump());
  writer.add_text(model.warning);
  model.vocabulary.save(writer);
  model.bpe->save(writer);
  save(model.added_tokens.tokens(), writer);
  return seal_tokenizer_cache(writer.bytes(), source);
}

std::unique_ptr<const TokenizerModel> decode_tokenizer_cache(std::string_view bytes, Hash128 source,
                                                             const std::string& where) {
  Head head;
  TableReader::require(bytes.size() >= sizeof head, "too short");
  const std::string_view tables = bytes.substr(sizeof head);
  std::memcpy(&head, bytes.data(), sizeof head);
  const Head fresh;
  TableReader::require(std::memcmp(head.magic, fresh.magic, sizeof head.magic) == 0,
                       "not a tokenizer cache");
  TableReader::require(head.version == fresh.version && head.byte_order == fresh.byte_order,
                       "made by another version of the program or another machine");
  TableReader::require(Hash128{head.source_low, head.source_high} == source,
                       "made of another tokenizer.json");
  const Head right = head_of(tables, source);
  TableReader::require(std::memcmp(&head, &right, sizeof head) == 0, "its checksum does not fit");

  TableReader reader(tables);
  auto model = std::make_unique<TokenizerModel>();
  model->components = Json::parse(reader.take_text(), where);
  model->warning = reader.take_text();
  model->vocabulary = Vocabulary::load(reader);
  read_steps(where, *model);
  model->bpe.emplace(Bpe::load(model->vocabulary, read_bpe_options(where, *model), where, reader));
  set_added_tokens(load_added_tokens(reader), where, *model);
  read_template(where, *model);
  TableReader::require(reader.is_at_end(), "more follows than there should be");
  return model;
}

std::unique_ptr<const TokenizerModel> read_tokenizer_cache(const std::string& tokenizer_path,
                                                           Hash128 source) {
  const std::string path = tokenizer_cache_path(tokenizer_path);
  if (!is_file(path)) return nullptr;
  try {
    const MappedFile file(path);
    file.populate();
    return decode_tokenizer_cache(file.text(), source, tokenizer_path);
  } catch (const Error& error) {
    log_debug(fmt::format("{}: not used: {}", path, error.message()));
    return nullptr;
  }
}

void write_tokenizer_cache(const std::string& tokenizer_path, const TokenizerModel& model,
                           Hash128 source) {
  const std::string path = tokenizer_cache_path(tokenizer_path);
  // A name of its own for every writer; whoever is renamed last stays, and all say the same.
  std::random_device random;
  const std::string partial = fmt::format("{}.{:08x}{:08x}.partial", path, random(), random());
  try {
    FileWriter writer(partial, "tokenizer_cache");
    writer.write(encode_tokenizer_cache(model, source));
    writer.close();
    // Not flushed to the device: a cache torn by a power cut is found by its checksum.
    if (std::rename(partial.c_str(), path.c_str()) != 0) {
      throw Error{ErrorKind::hardware, path + ": can't be replaced"};
    }
    log_debug(fmt::format("{}: written", path));
  } catch (const Error& error) {
    log_debug(fmt::format("no tokenizer cache: {}", error.message()));
    static_cast<void>(std::remove(partial.c_str()));
  }
}

}  // namespace zaya
