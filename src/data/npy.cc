// SPDX-License-Identifier: Apache-2.0
#include "data/npy.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "base/error.h"

namespace zaya {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

template <class... Args>
[[noreturn]] void damaged(std::string_view where, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Error{ErrorKind::damaged,
              fmt::format("{}: {}", where, fmt::format(format, std::forward<Args>(args)...))};
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The literal of the header, read without a thought of Python beyond it.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  void parse(NpyHeader& header) {
    expect('{');
    bool has_descr = false, has_order = false, has_shape = false;
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      bool* is_there = key == "descr"           ? &has_descr
                       : key == "fortran_order" ? &has_order
                       : key == "shape"         ? &has_shape
                                                : nullptr;
      if (is_there == nullptr) fail("a key that is not descr, fortran_order or shape");
      if (std::exchange(*is_there, true)) fail("a key twice");
      if (key == "descr") header.format = descr();
      if (key == "fortran_order") header.is_column_major = boolean();
      if (key == "shape") shape(header);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!has_descr || !has_order || !has_shape) fail("no descr, fortran_order or shape");
    if (text_.find_first_not_of(' ') != text_.rfind('\n') || !text_.ends_with('\n')) {
      fail("something other than spaces and a line end behind it");
    }
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    damaged(where_,
            "its header has {}; numpy writes {{'descr': '<u2', 'fortran_order': False, "
            "'shape': (N,), }}",
            what);
  }
  void skip_spaces() { text_.remove_prefix(std::min(text_.find_first_not_of(' '), text_.size())); }
  bool accept(char c) {
    skip_spaces();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("no '{}' where one belongs", c));
  }
  std::string_view string() {
    skip_spaces();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) fail("no text where one belongs");
    const std::size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) fail("a text without end");
    const std::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }
  bool boolean() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair{"True", true}, {"False", false}}) {
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(std::string_view(word).size());
      return value;
    }
    fail("a fortran_order that is neither True nor False");
  }
  IntegerFormat descr() {
    skip_spaces();
    if (text_.starts_with('[')) damaged(where_, "holds records, not token ids");
    const std::string_view type = string();
    if (type.ends_with('O')) {
      damaged(where_,
              "holds Python objects (a pickle), which are never loaded; save the ids as "
              "an integer array");
    }
    if (type.size() == 3 && std::string_view("<>|").find(type[0]) != std::string_view::npos) {
      const int bytes = type[2] - '0';
      const bool is_signed = type[1] == 'i';
      const bool is_integer =
          is_signed ? bytes == 2 || bytes == 4 || bytes == 8
                    : type[1] == 'u' && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
      // Only single bytes have no order.
      if (is_integer && (type[0] != '|' || bytes == 1)) {
        return {bytes, is_signed, type[0] == '>'};
      }
    }
    damaged(where_, "holds values of type {}, not token ids; save them as uint16 or int32",
            printable(type));
  }
  Index number() {
    skip_spaces();
    Index value = -1;
    const auto [end, failure] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (failure != std::errc{} || value < 0) fail("no size where one belongs");
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }
  void shape(NpyHeader& header) {
    expect('(');
    Index dims[2];
    int rank = 0;
    while (!accept(')')) {
      if (rank == 2) damaged(where_, "has more than two dims; ids are a stream or rows");
      dims[rank++] = number();
      if (accept(',')) continue;
      if (rank == 1) fail("a number in parentheses for a shape");
      expect(')');
      break;
    }
    if (rank == 0) damaged(where_, "holds a single value; ids are a stream or rows");
    header.has_rows = rank == 2;
    header.rows = rank == 2 ? dims[0] : 1;
    header.columns = dims[rank - 1];
  }

  std::string_view text_, where_;
};

// Length field and its size by version.
std::pair<std::size_t, std::size_t> header_place(std::string_view file, std::string_view where) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(file[i]); };
  const int major = byte(6);
  if (major < 1 || major > 3 || byte(7) != 0) {
    damaged(where, "has version {}.{} of the format; 1.0, 2.0 and 3.0 are known", major, byte(7));
  }
  const std::size_t width = major == 1 ? 2 : 4;
  if (file.size() < 8 + width) damaged(where, "ends inside its header");
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i) length |= std::size_t{byte(8 + i)} << (8 * i);
  if (length > file.size() - 8 - width) {
    damaged(where, "states {} bytes of header, the file has {}", length, file.size());
  }
  return {8 + width, length};
}

}  // namespace

bool is_npy(std::span<const std::byte> head) { return text_of(head).starts_with(kMagic); }

NpyHeader parse_npy(std::span<const std::byte> file, std::string_view where) {
  if (!is_npy(file)) damaged(where, "is no .npy file: it does not begin with 93 NUMPY");
  if (file.size() < 8) damaged(where, "ends inside its header");
  const auto [begin, length] = header_place(text_of(file), where);
  NpyHeader header;
  HeaderParser(text_of(file).substr(begin, length), where).parse(header);
  header.data_offset = begin + length;
  const Index most = std::numeric_limits<Index>::max() / header.format.bytes;
  if (header.columns > 0 && header.rows > most / header.columns) {
    damaged(where, "states {} x {} values, more than any file holds", header.rows, header.columns);
  }
  const Index wanted = header.num_values() * header.format.bytes;
  const Index found = static_cast<Index>(file.size() - header.data_offset);
  if (wanted != found) {
    damaged(where, "states {} values of {} bytes, but {} bytes follow its header",
            header.num_values(), header.format.bytes, found);
  }
  return header;
}

NpyTokens::NpyTokens(const std::string& path)
    : file_(path), header_(parse_npy(file_.bytes(), path)) {}

bool NpyTokens::next(TokenBatch& batch) {
  // Rows without columns are no documents: their number is only a word of the header.
  if (row_ == header_.rows || header_.columns == 0) return false;
  const Index count = std::min(kMaxBatchTokens, header_.columns - column_);
  const std::byte* values = file_.bytes().data() + header_.data_offset;
  const Index first =
      header_.is_column_major ? column_ * header_.rows + row_ : row_ * header_.columns + column_;
  const Index stride = header_.is_column_major ? header_.rows : 1;
  batch.tokens.resize(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) {
    batch.tokens[i] = integer_at(header_.format, values, first + i * stride);
  }
  if (!header_.is_column_major) {
    file_.dont_need(header_.data_offset + static_cast<std::size_t>(first * header_.format.bytes),
                    static_cast<std::size_t>(count * header_.format.bytes));
  }
  column_ += count;
  batch.ends_row = column_ == header_.columns;
  if (batch.ends_row) {
    ++row_;
    column_ = 0;
  }
  return true;
}

Index NpyTokens::consumed() const {
  return (row_ * header_.columns + column_) * header_.format.bytes;
}

}  // namespace zaya
