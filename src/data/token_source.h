// SPDX-License-Identifier: Apache-2.0
//
// Where imported tokens come from: one file or folder of another program's token format, read front
// to back in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace zaya {

// Integers as they are stored in foreign files.
struct IntegerFormat {
  int bytes = 4;  // 1, 2, 4 or 8
  bool is_signed = true;
  bool is_big_endian = false;
  bool operator==(const IntegerFormat&) const = default;
};

// Value number i of packed integers, at any alignment. A u64 above the signed range comes out
// negative and is refused as such.
std::int64_t integer_at(const IntegerFormat& format, const std::byte* data, Index i);

// Text of a file as a message may show it: at most 80 characters, "?" for what is not printable
// ASCII.
std::string printable(std::string_view text);

// Some tokens of a source, in order.
struct TokenBatch {
  std::vector<std::int64_t> tokens;
  bool ends_row = false;  // the format's own unit (a row, a sample) ends behind these tokens
};

inline constexpr Index kMaxBatchTokens = 1 << 16;

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // What the user gave, for messages and the side file.
  virtual const std::string& path() const = 0;
  // Size on the device.
  virtual Index num_bytes() const = 0;
  // Does the stored type hold no value of 65536 or more?
  virtual bool fits_u16() const = 0;
  // The id that each document begins with by the rule of the format; -1: no such rule.
  virtual Index document_start_id() const = 0;
  // The next tokens, at most kMaxBatchTokens; false behind the last. Values are as stored: whether
  // they can be ids is checked by the caller.
  virtual bool next(TokenBatch& batch) = 0;
  // Bytes read so far.
  virtual Index consumed() const = 0;
};

}  // namespace zaya
