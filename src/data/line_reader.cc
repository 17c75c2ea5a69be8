// SPDX-License-Identifier: Apache-2.0
#include "data/line_reader.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "base/error.h"

namespace zaya {

namespace {

constexpr std::size_t kFirstBufferBytes = 1 << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

LineReader::LineReader(ByteSource source, std::string path)
    : source_(std::move(source)), path_(std::move(path)), buffer_(kFirstBufferBytes) {}

// Reads more behind end_; false at the end of the source.
bool LineReader::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < kFirstBufferBytes / 2) {
    if (end_ > kMaxLineBytes) {
      throw Error{ErrorKind::damaged, fmt::format("{}:{}: a line above 1 GiB; is this a text file?",
                                                  path_, line_number_ + 1)};
    }
    buffer_.resize(buffer_.size() * 2);
  }
  const std::size_t got =
      source_.read(buffer_.data() + end_, buffer_.size() - end_ - kPaddingBytes);
  end_ += got;
  return got > 0;
}

void LineReader::drop_byte_order_mark() {
  is_at_start_ = false;
  while (end_ - begin_ < 512 && fill()) {
  }
  const std::string_view head(buffer_.data() + begin_, end_ - begin_);
  if (std::string refusal = refusal_of(head, path_); !refusal.empty()) {
    throw Error{ErrorKind::usage, std::move(refusal)};
  }
  if (head.starts_with(kByteOrderMark)) begin_ += kByteOrderMark.size();
}

bool LineReader::next(std::string_view& line) {
  if (is_at_start_) drop_byte_order_mark();
  std::size_t searched = 0;
  while (true) {
    const char* start = buffer_.data() + begin_;
    const void* found = std::memchr(start + searched, '\n', end_ - begin_ - searched);
    if (found != nullptr) {
      line = {start, static_cast<std::size_t>(static_cast<const char*>(found) - start) + 1};
      break;
    }
    searched = end_ - begin_;
    if (fill()) continue;
    if (begin_ == end_) return false;
    line = {buffer_.data() + begin_, end_ - begin_};
    break;
  }
  begin_ += line.size();
  ++line_number_;
  return true;
}

}  // namespace zaya
