// SPDX-License-Identifier: Apache-2.0
#include "data/shard_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"

namespace zaya {

namespace {

constexpr std::size_t kHashBlockBytes = 1 << 22;

std::string lengths_path(const std::string& prefix) { return prefix + ".lengths.partial"; }
std::string documents_path(const std::string& prefix) { return prefix + ".documents.partial"; }
std::string partial(const std::string& path) { return path + ".partial"; }

FileWriter open_at(const std::string& path, Index bytes) {
  if (bytes == 0) return FileWriter(path, "shard");
  if (!is_file(path) || file_size(path) < bytes) {
    throw Error{
        ErrorKind::damaged,
        fmt::format("{}: is shorter than its journal says; begin again with --overwrite", path)};
  }
  truncate_file(path, bytes);
  return FileWriter(path, "shard", true);
}

template <class T>
void pack(std::span<const std::int32_t> tokens, std::vector<std::byte>& packed) {
  packed.resize(tokens.size() * sizeof(T));
  std::byte* out = packed.data();
  for (const std::int32_t token : tokens) {
    ZAYA_DCHECK(token >= 0 && std::in_range<T>(token));
    const T value = static_cast<T>(token);
    std::memcpy(out, &value, sizeof value);
    out += sizeof value;
  }
}

}  // namespace

ShardWriter::ShardWriter(std::string prefix, TokenType type, const ShardPosition& position)
    : prefix_(std::move(prefix)), type_(type), position_(position) {
  ZAYA_CHECK(type == TokenType::u16 || type == TokenType::i32, "no writer for this token type");
  make_directories(directory_name(prefix_));
  bin_.emplace(open_at(partial(bin_path(prefix_)), position.tokens * bytes_per_token(type)));
  lengths_.emplace(open_at(lengths_path(prefix_), position.sequences * 4));
  documents_.emplace(open_at(documents_path(prefix_), position.documents * 8));
}

void ShardWriter::add_sequence(std::span<const std::int32_t> tokens) {
  append(tokens);
  end_sequence();
}

void ShardWriter::append(std::span<const std::int32_t> tokens) {
  const Index room = std::numeric_limits<std::int32_t>::max() - open_tokens_;
  if (static_cast<Index>(tokens.size()) > room) {
    throw Error{ErrorKind::usage, "a document above 2147483647 tokens does not fit the format"};
  }
  if (type_ == TokenType::u16) {
    pack<std::uint16_t>(tokens, packed_);
  } else {
    pack<std::int32_t>(tokens, packed_);
  }
  bin_->write(packed_.data(), packed_.size());
  open_tokens_ += static_cast<Index>(tokens.size());
  for (const std::int32_t token : tokens) {
    position_.largest_id = std::max<Index>(position_.largest_id, token);
  }
}

void ShardWriter::end_sequence() {
  const auto length = static_cast<std::int32_t>(open_tokens_);
  lengths_->write(&length, sizeof length);
  ++position_.sequences;
  position_.tokens += length;
  open_tokens_ = 0;
}

void ShardWriter::end_document() {
  ZAYA_CHECK(open_tokens_ == 0, "a document ends inside a sequence");
  const std::int64_t end = position_.sequences;
  documents_->write(&end, sizeof end);
  ++position_.documents;
}

void ShardWriter::sync() {
  bin_->sync();
  lengths_->sync();
  documents_->sync();
}

void ShardWriter::write_index() {
  const MappedFile lengths(lengths_path(prefix_)), documents(documents_path(prefix_));
  FileWriter writer(partial(idx_path(prefix_)), "index");
  writer.write(token_index_header(type_, position_.sequences, position_.documents));
  writer.write(lengths.text());
  std::int64_t begin = 0;
  for (Index s = 0; s < position_.sequences; ++s) {
    writer.write(&begin, sizeof begin);
    std::int32_t length;
    std::memcpy(&length, lengths.bytes().data() + s * 4, sizeof length);
    begin += length * bytes_per_token(type_);
  }
  const std::int64_t first = 0;
  writer.write(&first, sizeof first);
  writer.write(documents.text());
  writer.sync();
  writer.close();
}

void ShardWriter::finish(ShardInfo info) {
  sync();
  bin_->close();
  lengths_->close();
  documents_->close();
  write_index();
  info.documents = position_.documents;
  info.sequences = position_.sequences;
  info.tokens = position_.tokens;
  info.largest_id = position_.largest_id;
  info.bin_checksum = checksum_of_file(partial(bin_path(prefix_)));
  FileWriter side(partial(info_path(prefix_)), "side");
  side.write(info.to_json().dump(2) + "\n");
  side.sync();
  side.close();
}

std::string checksum_of_file(const std::string& path) {
  const FileReader file(path);
  file.drop_cache();
  Hasher hasher;
  std::vector<std::byte> block(kHashBlockBytes);
  for (Index at = 0; at < file.size(); at += static_cast<Index>(block.size())) {
    const auto count = static_cast<std::size_t>(
        std::min<Index>(file.size() - at, static_cast<Index>(block.size())));
    file.read_at(at, block.data(), count);
    hasher.add(block.data(), count);
  }
  return digest_text(hasher.finish());
}

void refuse_input_as_output(const std::vector<std::string>& inputs, const std::string& prefix) {
  for (const std::string& output : {bin_path(prefix), idx_path(prefix), info_path(prefix)}) {
    for (const std::string& input : inputs) {
      std::error_code no_such_file;
      if (input == output || std::filesystem::equivalent(input, output, no_such_file)) {
        throw Error{ErrorKind::usage,
                    output + ": is an input and would be overwritten; choose another --output"};
      }
    }
  }
}

void refuse_foreign_side_file(const std::string& prefix) {
  const std::string side = info_path(prefix);
  if (is_file(side) && !read_shard_info(prefix)) {
    throw Error{ErrorKind::usage,
                side + ": is there and no side file of a token file; choose another --output"};
  }
}

bool is_output_taken(const std::string& prefix) {
  refuse_foreign_side_file(prefix);
  return path_kind(bin_path(prefix)) != PathKind::absent ||
         path_kind(idx_path(prefix)) != PathKind::absent ||
         path_kind(info_path(prefix)) != PathKind::absent;
}

void publish_shard(const std::string& prefix) {
  if (is_file(partial(idx_path(prefix)))) remove_all(idx_path(prefix));
  for (const std::string& path : {bin_path(prefix), info_path(prefix), idx_path(prefix)}) {
    fault_point("publish.rename");
    if (is_file(partial(path))) rename_durably(partial(path), path);
  }
  remove_partial_shard(prefix);
}

void remove_partial_shard(const std::string& prefix) {
  for (const std::string& path :
       {partial(bin_path(prefix)), partial(info_path(prefix)), partial(idx_path(prefix)),
        lengths_path(prefix), documents_path(prefix)}) {
    remove_all(path);
  }
}

}  // namespace zaya
