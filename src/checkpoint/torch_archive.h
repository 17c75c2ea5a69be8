// SPDX-License-Identifier: Apache-2.0
//
// What torch.save() writes: a ZIP archive, stored without compression.
//
//   NAME/data.pkl      a pickle: the value, with storages by key
//   NAME/data/KEY      the bytes of a storage
//   NAME/byteorder     "little" (absent in old ones)
//
// Read by the central directory at the end; ZIP64 is understood. Checksums are compared when an
// entry is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace zaya {

class TorchArchive {
 public:
  // `bytes` is the whole archive, which the caller keeps alive; `where` begins the message of
  // Error{damaged}.
  TorchArchive(std::span<const std::byte> bytes, std::string where);

  const std::string& where() const { return where_; }
  bool has(std::string_view name) const;
  // The bytes of an entry by its name below NAME/. Error{damaged} when there is none, or its
  // checksum is not that of the archive.
  std::span<const std::byte> entry(std::string_view name) const;

 private:
  struct Entry {
    std::string_view name;  // below NAME/
    std::span<const std::byte> bytes;
    std::uint32_t checksum = 0;
  };

  void read_directory();
  std::size_t read_entry(std::size_t at);
  std::span<const std::byte> stored_bytes(std::uint64_t local_header, std::uint64_t size) const;
  template <class T>
  T load(std::uint64_t at) const;

  std::span<const std::byte> bytes_;
  std::string where_;
  std::vector<Entry> entries_;
};

// A tensor that was saved by itself. The bytes belong to the archive's.
StoredTensor read_torch_tensor(const TorchArchive& archive);

// Anything else that was saved: None, booleans, numbers, texts, tuples, lists and dicts with text
// keys, as JSON. Error{damaged} names what can't be told.
Json read_torch_object(const TorchArchive& archive);

}  // namespace zaya
