// SPDX-License-Identifier: Apache-2.0
//
// MosaicML streaming data sets (MDS): a folder of shards and an index.json that describes them.
//
//   raw shard      u32 n; u32 offset[n+1] from the start of the file; the columns as JSON (repeats
//                  index.json); sample i at [offset[i], offset[i+1])
//   sample         per column without a fixed size one u32 length, then the values, both in the
//                  order of the columns
//   stored file    zip_data when it is there (the whole shard compressed), else raw_data
//
// Tokens are one column: ndarray:DTYPE:SHAPE, ndarray:DTYPE, ndarray, or bytes, whose type only the
// user knows.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "data/token_source.h"

namespace zaya {

struct MdsFile {
  std::string name;  // below the folder
  Index bytes = 0;
  std::vector<std::pair<std::string, std::string>> hashes;  // algorithm, hexadecimal digest
};

struct MdsColumn {
  std::string name, encoding;
  std::optional<Index> size;  // in bytes, when all values have one size
};

struct MdsShardInfo {
  MdsFile raw;
  std::optional<MdsFile> zip;
  Index num_samples = 0;
  std::vector<MdsColumn> columns;

  const MdsFile& stored() const { return zip ? *zip : raw; }
};

// Reads index.json. Error{damaged} for what the format does not allow, file names that leave the
// folder among it; Error{usage} for a compression that can't be undone here.
std::vector<MdsShardInfo> parse_mds_index(std::string_view text, const std::string& where);

// How values of the column of tokens are stored.
struct MdsTokens {
  std::size_t column = 0;
  // None: each value says so itself (encoding ndarray).
  std::optional<IntegerFormat> format;
  bool has_shape = false;  // each value begins with its shape
};

// The column `name` of a shard. `bytes_type` ("int32", or "" when not given) is the type of plain
// bytes. Error{usage} lists the columns when there is none of that name or it can't hold tokens.
MdsTokens find_mds_tokens(const MdsShardInfo& shard, const std::string& name,
                          const std::string& bytes_type, std::string_view where);

// The values of one sample.
struct MdsValues {
  IntegerFormat format;
  std::span<const std::byte> bytes;
  Index count() const { return static_cast<Index>(bytes.size()) / format.bytes; }
};

// A shard's bytes, uncompressed. They belong to the caller and outlive this object.
class MdsShard {
 public:
  // Checks offsets against size and index.json. Error{damaged} begins with `where`.
  MdsShard(std::span<const std::byte> bytes, const MdsShardInfo& info, std::string where);

  Index num_samples() const { return info_.num_samples; }
  // The tokens of sample i. Error{damaged} when its parts do not fit together.
  MdsValues tokens(Index i, const MdsTokens& layout) const;

 private:
  std::uint32_t word_at(Index offset) const;
  std::span<const std::byte> value(Index i, std::size_t column) const;

  std::span<const std::byte> bytes_;
  const MdsShardInfo& info_;
  std::string where_;
};

struct MdsOptions {
  std::string column = "tokens";
  std::string bytes_type;    // "int32", for a column of plain bytes
  std::string scratch_path;  // where a compressed shard is unpacked to, one at a time
};

class MdsFolder : public TokenSource {
 public:
  // `path` is the folder. Reads index.json; shards are opened when their turn comes.
  MdsFolder(std::string path, MdsOptions options);
  ~MdsFolder() override;
  MdsFolder(const MdsFolder&) = delete;
  MdsFolder& operator=(const MdsFolder&) = delete;

  const std::string& path() const override { return path_; }
  Index num_bytes() const override;
  bool fits_u16() const override;
  Index document_start_id() const override { return -1; }
  // A sample is a row.
  bool next(TokenBatch& batch) override;
  Index consumed() const override { return consumed_; }

 private:
  void open_shard();
  void unpack(const MdsShardInfo& info, const std::string& stored_path);

  std::string path_;
  MdsOptions options_;
  std::vector<MdsShardInfo> shards_;
  std::vector<MdsTokens> layouts_;
  Index consumed_ = 0;
  std::size_t next_shard_ = 0;
  MappedFile file_;
  std::optional<MdsShard> shard_;  // reads file_
  Index sample_ = 0, position_ = 0;
};

}  // namespace zaya
