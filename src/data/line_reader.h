// SPDX-License-Identifier: Apache-2.0
//
// Lines of a byte source. Memory: the longest line, at most kMaxLineBytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"

namespace zaya {

// A line or document above this is an error, not an attempt to hold it.
inline constexpr std::size_t kMaxLineBytes = std::size_t{1} << 30;

class LineReader {
 public:
  // So many bytes behind a line may be read (not used): parsers look ahead.
  static constexpr std::size_t kPaddingBytes = 64;

  // A byte order mark at the start is dropped.
  LineReader(ByteSource source, std::string path);

  // The next line with its line end, if it has one; false at the end. Valid until the next call.
  bool next(std::string_view& line);
  // Of the line that next() returned last, from 1.
  Index line_number() const { return line_number_; }
  Index consumed() const { return source_.consumed(); }
  const std::string& path() const { return path_; }

 private:
  bool fill();
  void drop_byte_order_mark();

  ByteSource source_;
  std::string path_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  Index line_number_ = 0;
  bool is_at_start_ = true;
};

}  // namespace zaya
