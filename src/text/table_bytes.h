// SPDX-License-Identifier: Apache-2.0
//
// Tables as they lie in memory, one after the other: each its number of entries (u64) and its
// bytes, filled up with zeros to a multiple of 8. For files that only this machine reads again.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/large_vector.h"

namespace zaya {

class TableWriter {
 public:
  template <class T>
  void add(std::span<const T> table) {
    static_assert(std::has_unique_object_representations_v<T>, "padding would be written");
    add_bytes(table.size(), {reinterpret_cast<const char*>(table.data()), table.size_bytes()});
  }
  template <class T, class Allocator>
  void add(const std::vector<T, Allocator>& table) {
    add(std::span<const T>(table));
  }
  void add_text(std::string_view text) { add_bytes(text.size(), text); }

  const std::string& bytes() const { return bytes_; }

 private:
  void add_bytes(std::uint64_t count, std::string_view table) {
    bytes_.append(reinterpret_cast<const char*>(&count), sizeof count);
    bytes_.append(table);
    bytes_.append((8 - table.size() % 8) % 8, '\0');
  }

  std::string bytes_;
};

// Gives the tables back in their order. Throws Error{damaged} where the bytes can't hold them.
class TableReader {
 public:
  explicit TableReader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  LargeVector<T> take() {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::string_view bytes = take_bytes(sizeof(T));
    LargeVector<T> table(bytes.size() / sizeof(T));
    if (!table.empty()) std::memcpy(table.data(), bytes.data(), bytes.size());
    return table;
  }
  std::string take_text() { return std::string(take_bytes(1)); }
  bool is_at_end() const { return rest_.empty(); }

  // Throws unless it holds: what a table must satisfy before it is used.
  static void require(bool holds, const char* problem) {
    if (!holds) throw Error{ErrorKind::damaged, problem};
  }

 private:
  std::string_view take_bytes(std::size_t entry_bytes) {
    std::uint64_t count = 0;
    require(rest_.size() >= sizeof count, "a table is missing");
    std::memcpy(&count, rest_.data(), sizeof count);
    rest_.remove_prefix(sizeof count);
    require(count <= rest_.size() / entry_bytes, "a table ends early");
    const std::size_t num_bytes = count * entry_bytes, filled = (num_bytes + 7) / 8 * 8;
    require(filled <= rest_.size(), "a table ends early");
    const std::string_view bytes = rest_.substr(0, num_bytes);
    rest_.remove_prefix(filled);
    return bytes;
  }

  std::string_view rest_;
};

}  // namespace zaya
