// SPDX-License-Identifier: Apache-2.0
//
// MdsFolder: the shards of a folder one after the other, unpacked and checked.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/checksums.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "data/byte_source.h"
#include "data/mds.h"

namespace zaya {

namespace {

constexpr std::size_t kUnpackBytes = 1 << 20;

// Size and all digests of an algorithm that is known here; others are said.
void check_file(const MdsFile& stated, std::span<const std::byte> bytes, const std::string& path) {
  if (static_cast<Index>(bytes.size()) != stated.bytes) {
    throw Error{ErrorKind::damaged, fmt::format("{}: has {} bytes, index.json states {}; fetch it "
                                                "again",
                                                path, bytes.size(), stated.bytes)};
  }
  for (const auto& [algorithm, digest] : stated.hashes) {
    const std::optional<std::string> found = hex_digest(algorithm, bytes);
    if (!found) {
      log_info(fmt::format("{}: its {} is not checked: no such algorithm here", path,
                           printable(algorithm)));
    } else if (*found != digest) {
      throw Error{ErrorKind::damaged, fmt::format("{}: its {} is {}, index.json states {}; fetch "
                                                  "it again",
                                                  path, algorithm, *found, printable(digest))};
    }
  }
}

}  // namespace

MdsFolder::MdsFolder(std::string path, MdsOptions options)
    : path_(std::move(path)), options_(std::move(options)) {
  const std::string index_path = join_path(path_, "index.json");
  const MappedFile index(index_path);
  shards_ = parse_mds_index(index.text(), index_path);
  for (const MdsShardInfo& shard : shards_) {
    layouts_.push_back(find_mds_tokens(shard, options_.column, options_.bytes_type, index_path));
    const std::string stored = join_path(path_, shard.stored().name);
    if (!is_file(stored)) {
      throw Error{ErrorKind::damaged,
                  fmt::format("{}: is missing; {} names it", stored, index_path)};
    }
  }
}

MdsFolder::~MdsFolder() {
  file_ = MappedFile();
  try {
    remove_all(options_.scratch_path);
  } catch (const Error& error) {
    // A destructor may not throw; the file is only in the way.
    log_warning(error.message());
  }
}

Index MdsFolder::num_bytes() const {
  Index bytes = 0;
  for (const MdsShardInfo& shard : shards_) bytes += shard.stored().bytes;
  return bytes;
}

bool MdsFolder::fits_u16() const {
  return std::all_of(layouts_.begin(), layouts_.end(), [](const MdsTokens& layout) {
    return layout.format && layout.format->bytes <= 2;
  });
}

// Writes the raw shard to the scratch file: not a byte more than index.json states.
void MdsFolder::unpack(const MdsShardInfo& info, const std::string& stored_path) {
  ByteSource source(stored_path);
  FileWriter writer(options_.scratch_path, "shard");
  std::vector<char> block(kUnpackBytes);
  while (const std::size_t count = source.read(block.data(), block.size())) {
    if (writer.position() + static_cast<Index>(count) > info.raw.bytes) {
      throw Error{ErrorKind::damaged,
                  fmt::format("{}: unpacks to more than the {} bytes that index.json states",
                              stored_path, info.raw.bytes)};
    }
    writer.write(block.data(), count);
  }
  writer.close();
}

void MdsFolder::open_shard() {
  const MdsShardInfo& info = shards_[next_shard_++];
  const std::string stored = join_path(path_, info.stored().name);
  shard_.reset();
  file_ = MappedFile(stored);
  check_file(info.stored(), file_.bytes(), stored);
  if (info.zip) {
    unpack(info, stored);
    file_ = MappedFile(options_.scratch_path);
    check_file(info.raw, file_.bytes(), stored + ", unpacked");
  }
  shard_.emplace(file_.bytes(), info, stored);
  sample_ = position_ = 0;
}

bool MdsFolder::next(TokenBatch& batch) {
  while (!shard_ || sample_ == shard_->num_samples()) {
    if (shard_) consumed_ += shards_[next_shard_ - 1].stored().bytes;
    shard_.reset();
    if (next_shard_ == shards_.size()) return false;
    open_shard();
  }
  const MdsValues values = shard_->tokens(sample_, layouts_[next_shard_ - 1]);
  const Index count = std::min(kMaxBatchTokens, values.count() - position_);
  batch.tokens.resize(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) {
    batch.tokens[i] = integer_at(values.format, values.bytes.data(), position_ + i);
  }
  position_ += count;
  batch.ends_row = position_ == values.count();
  if (batch.ends_row) {
    ++sample_;
    position_ = 0;
  }
  return true;
}

}  // namespace zaya
