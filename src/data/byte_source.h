// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a file in order, decompressed on the way. gzip (several members) and zstd (several
// frames, skippable ones, windows up to 128 MiB) are recognised by their first bytes, whatever the
// file is called.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/types.h"

namespace zaya {

class ByteSource {
 public:
  // Error{usage} for a file that can't be opened, or whose first bytes are those of a format that
  // holds no plain text (Parquet, Arrow, zip, xz, ...): the message says how to convert it.
  explicit ByteSource(const std::string& path);
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;

  // Writes up to `capacity` bytes and returns their number; 0 is the end of the file.
  // Error{damaged} for a compressed stream that is damaged or cut: a cut is never taken for the
  // end.
  std::size_t read(char* data, std::size_t capacity);
  // Bytes of the file itself taken so far, before decompression.
  Index consumed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What to do with a file that begins with `head` when it can't hold plain text, or "".
std::string refusal_of(std::string_view head, const std::string& path);

}  // namespace zaya
