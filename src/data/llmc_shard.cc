// SPDX-License-Identifier: Apache-2.0
#include "data/llmc_shard.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace zaya {

namespace {

constexpr std::size_t kHeaderBytes = 1024;
constexpr Index kExampleMark = 65535;

struct Format {
  std::int32_t magic, version;
  LlmcHeader::Kind kind;
};
constexpr Format kFormats[] = {
    {20240520, 1, LlmcHeader::Kind::gpt2_tokens},
    {20240801, 7, LlmcHeader::Kind::llama3_tokens},
    {20240522, 1, LlmcHeader::Kind::choices},
};

std::int32_t word_at(std::span<const std::byte> bytes, std::size_t i) {
  std::int32_t value;
  std::memcpy(&value, bytes.data() + 4 * i, sizeof value);
  return value;
}

template <class... Args>
[[noreturn]] void damaged(std::string_view where, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Error{ErrorKind::damaged,
              fmt::format("{}: {}", where, fmt::format(format, std::forward<Args>(args)...))};
}

const Format* format_of(std::int32_t magic) {
  for (const Format& format : kFormats) {
    if (format.magic == magic) return &format;
  }
  return nullptr;
}

}  // namespace

bool is_llmc(std::span<const std::byte> head) {
  return head.size() >= 4 && format_of(word_at(head, 0)) != nullptr;
}

LlmcHeader parse_llmc(std::span<const std::byte> file, std::string_view where) {
  if (file.size() < kHeaderBytes) {
    damaged(where, "has {} bytes, the header of an llm.c file takes {}", file.size(), kHeaderBytes);
  }
  const Format* format = format_of(word_at(file, 0));
  if (format == nullptr) {
    damaged(where, "begins with {}, which is no magic number of llm.c", word_at(file, 0));
  }
  if (word_at(file, 1) != format->version) {
    damaged(where, "has version {}, only {} is known for magic {}", word_at(file, 1),
            format->version, format->magic);
  }
  LlmcHeader header;
  header.kind = format->kind;
  header.count = word_at(file, 2);
  if (header.count <= 0) damaged(where, "states {} values; there must be some", header.count);
  if (!header.has_tokens()) header.longest_example_bytes = word_at(file, 3);
  for (std::size_t i = header.has_tokens() ? 3 : 4; i < 256; ++i) {
    if (word_at(file, i) != 0) {
      damaged(where, "has {} in place {} of its header, which is 0 in llm.c files",
              word_at(file, i), i);
    }
  }
  const Index found = static_cast<Index>(file.size() - kHeaderBytes);
  if (header.has_tokens() && header.count * header.bytes_per_token() != found) {
    damaged(where, "states {} tokens of {} bytes, but {} bytes follow its header", header.count,
            header.bytes_per_token(), found);
  }
  if (!header.has_tokens() && found % 2 != 0) damaged(where, "ends inside a value of two bytes");
  return header;
}

LlmcChoices::LlmcChoices(std::span<const std::byte> file, std::string where)
    : file_(file), where_(std::move(where)), header_(parse_llmc(file, where_)), at_(kHeaderBytes) {
  ZAYA_CHECK(!header_.has_tokens());
}

// One value, which must lie inside the example.
Index LlmcChoices::take(std::string_view what) {
  if (end_ - at_ < 2) damaged(where_, "example {} ends before its {}", number_, what);
  const Index value = integer_at({2, false, false}, file_.data() + at_, 0);
  at_ += 2;
  return value;
}

std::vector<Index> LlmcChoices::take_ids() {
  const Index count = take("number of ids");
  if (static_cast<std::size_t>(count) > (end_ - at_) / 2) {
    damaged(where_, "example {} states {} ids, more than it has bytes for", number_, count);
  }
  std::vector<Index> ids;
  for (Index i = 0; i < count; ++i) ids.push_back(take("ids"));
  return ids;
}

bool LlmcChoices::next(ChoiceExample& example) {
  if (number_ == header_.count) {
    if (at_ != file_.size())
      damaged(where_, "{} bytes follow the last example", file_.size() - at_);
    return false;
  }
  const std::size_t begin = at_;
  end_ = file_.size();
  if (take("mark") != kExampleMark) {
    damaged(where_, "example {} does not begin with {}", number_, kExampleMark);
  }
  const Index num_bytes = take("size");
  if (num_bytes < 4 || static_cast<std::size_t>(num_bytes) > file_.size() - begin) {
    damaged(where_, "example {} states {} bytes, {} are left", number_, num_bytes,
            file_.size() - begin);
  }
  if (num_bytes > header_.longest_example_bytes) {
    damaged(where_, "example {} has {} bytes, above the longest of the header, {}", number_,
            num_bytes, header_.longest_example_bytes);
  }
  end_ = begin + static_cast<std::size_t>(num_bytes);
  if (const Index stated = take("number"); stated != number_ % 65536) {
    damaged(where_, "example {} has the number {}", number_, stated);
  }
  example.label = take("label");
  const Index num_endings = take("number of endings");
  if (example.label >= num_endings) {
    damaged(where_, "example {} has the label {} and {} endings", number_, example.label,
            num_endings);
  }
  example.context = take_ids();
  example.endings.clear();
  for (Index e = 0; e < num_endings; ++e) example.endings.push_back(take_ids());
  if (at_ != end_) damaged(where_, "example {} is shorter than it states", number_);
  ++number_;
  return true;
}

LlmcTokens::LlmcTokens(const std::string& path)
    : file_(path), header_(parse_llmc(file_.bytes(), path)) {
  if (!header_.has_tokens()) {
    damaged(path, "holds multiple-choice examples, no tokens to train on");
  }
}

bool LlmcTokens::next(TokenBatch& batch) {
  if (position_ == header_.count) return false;
  const Index count = std::min(kMaxBatchTokens, header_.count - position_);
  const IntegerFormat format{header_.bytes_per_token(), false, false};
  const std::byte* values = file_.bytes().data() + kHeaderBytes;
  batch.tokens.resize(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) batch.tokens[i] = integer_at(format, values, position_ + i);
  batch.ends_row = false;
  file_.dont_need(kHeaderBytes + static_cast<std::size_t>(position_ * format.bytes),
                  static_cast<std::size_t>(count * format.bytes));
  position_ += count;
  return true;
}

Index LlmcTokens::consumed() const {
  return position_ == 0 ? 0
                        : static_cast<Index>(kHeaderBytes) + position_ * header_.bytes_per_token();
}

}  // namespace zaya
