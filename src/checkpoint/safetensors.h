// SPDX-License-Identifier: Apache-2.0
//
// safetensors files: a checked reader by memory map and a writer that gives the bytes of the
// official one.
//
//   offset 0     8 bytes   N, length of the header, unsigned, little-endian
//   offset 8     N bytes   JSON object: name -> {dtype, shape, data_offsets}, __metadata__
//   offset 8+N             packed row-major little-endian values of all tensors, without holes
//
// The reader never allocates by a number from the file before that number is checked against the
// size of the file. It is stricter than the official reader in one point: a name that occurs twice,
// also when spelled with escapes, is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/function_ref.h"
#include "checkpoint/storage_type.h"

namespace zaya {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// Name, type and shape of a stored tensor. The rank has no limit.
struct TensorSpec {
  std::string name;
  StorageType type = StorageType::f32;
  std::vector<std::uint64_t> shape;
  bool operator==(const TensorSpec&) const = default;
};

// "F32 [2, 3]".
std::string describe(const TensorSpec& spec);
std::vector<std::uint64_t> storage_shape(const Shape& shape);
// Bytes of any spec; none when they leave 63 bits or end inside a byte.
std::optional<std::uint64_t> checked_num_bytes(const TensorSpec& spec);
// Elements and bytes of a spec that was read from a file or planned for one.
std::uint64_t element_count(const TensorSpec& spec);
std::uint64_t num_bytes_of(const TensorSpec& spec);

// A tensor in mapped memory. The bytes may have any alignment and belong to the map.
struct StoredTensor {
  TensorSpec spec;
  std::span<const std::byte> bytes;
};

// Fills `out` from a stored tensor of the same shape and a convertible type (is_convertible).
// Otherwise Error{damaged} beginning with `where` that names the tensor and shows both sides.
void read_stored_tensor(const StoredTensor& stored, Tensor out, std::string_view where);

struct SafetensorsEntry {
  TensorSpec spec;
  std::uint64_t begin = 0, end = 0;  // bytes, from the start of the data
};

using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsHeader {
  std::uint64_t data_offset = 0;          // 8 + N
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  SafetensorsMetadata metadata;
  std::vector<std::size_t> by_name;  // indices of entries, names ascending by bytes

  // Null when there is no tensor of that name.
  const SafetensorsEntry* find(std::string_view name) const;
};

// Bytes before the data (8 + N), from the first min(8, file_size) bytes of a file.
std::uint64_t safetensors_data_offset(std::span<const std::byte> first_bytes,
                                      std::uint64_t file_size, std::string_view where);
// Reads and checks a header. `bytes` holds the file or at least what stands before the data.
// Error{damaged} begins with `where` and names the tensor or the byte.
SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, std::uint64_t file_size,
                                    std::string_view where);

// A mapped and checked file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  std::uint64_t file_size() const { return file_.bytes().size(); }
  StoredTensor tensor(const SafetensorsEntry& entry) const;
  // Error{damaged} naming file and tensor when there is none of that name.
  StoredTensor tensor(std::string_view name) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
};

// What a file will look like before anything is written.
struct SafetensorsPlan {
  std::string head;                  // length and padded header
  std::vector<std::size_t> order;    // indices of the specs in the order of their bytes
  std::vector<std::uint64_t> begin;  // of spec i, from the start of the data
  std::uint64_t file_size = 0;
};

// Wide types first, then names ascending, as the official writer. Error{usage} for a name that
// occurs twice, is reserved or is not UTF-8, for a size that does not fit, or a header above the
// limit.
SafetensorsPlan plan_safetensors(std::span<const TensorSpec> specs,
                                 const SafetensorsMetadata& metadata);

// Writes to a temporary name beside `path`, flushes, renames. emit(i, writer) writes exactly the
// bytes of spec i; it is called in the order of the plan. On failure `path` stays as it was.
void write_safetensors(const std::string& path, std::span<const TensorSpec> specs,
                       const SafetensorsMetadata& metadata,
                       FunctionRef<void(std::size_t i, FileWriter& writer)> emit,
                       const std::string& fault_name = "");
void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                       const SafetensorsMetadata& metadata);

}  // namespace zaya
