// SPDX-License-Identifier: Apache-2.0
//
// numpy's .npy arrays of integers:
//
//   offset 0   6   93 "NUMPY"
//   offset 6   2   version: major 1, 2 or 3, minor 0
//   offset 8   2   length of the header, u16 LE (version 1); 4 bytes, u32 LE (2 and 3)
//   then           {'descr': '<u2', 'fortran_order': False, 'shape': (37,), } and spaces, ended by
//                  LF: a Python literal, of which exactly this much is understood
//   then           the values, until the end of the file
//
// One dim is a stream of tokens; of two dims each row is a sequence.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "data/token_source.h"

namespace zaya {

struct NpyHeader {
  IntegerFormat format;
  bool is_column_major = false;  // "fortran_order"; only matters with rows
  bool has_rows = false;         // two dims
  Index rows = 1, columns = 0;   // one dim: one row
  std::size_t data_offset = 0;

  Index num_values() const { return rows * columns; }
};

// Does a file that begins with `head` claim to be one of these?
bool is_npy(std::span<const std::byte> head);
// Checks header and size of a whole file. Error{damaged} begins with `where`: also for values that
// are no integers, objects (pickles) above all.
NpyHeader parse_npy(std::span<const std::byte> file, std::string_view where);

class NpyTokens : public TokenSource {
 public:
  explicit NpyTokens(const std::string& path);

  const std::string& path() const override { return file_.path(); }
  Index num_bytes() const override { return static_cast<Index>(file_.bytes().size()); }
  bool fits_u16() const override { return header_.format.bytes <= 2; }
  Index document_start_id() const override { return -1; }
  // A row ends at its end, a stream at the end of the file. An array without values gives nothing.
  bool next(TokenBatch& batch) override;
  Index consumed() const override;

 private:
  MappedFile file_;
  NpyHeader header_;
  Index row_ = 0, column_ = 0;
};

}  // namespace zaya
