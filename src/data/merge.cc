// SPDX-License-Identifier: Apache-2.0
#include "data/merge.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "data/shard.h"
#include "data/shard_writer.h"

namespace zaya {

namespace {

constexpr std::size_t kCopyBytes = 1 << 24;

using Shards = std::deque<Shard>;

void check_alike(const Shard& first, const Shard& other) {
  const auto refuse = [&](std::string_view what, std::string_view a, std::string_view b) {
    throw Error{ErrorKind::usage,
                fmt::format("{} has {} {}, {} has {}; only alike token files can be joined",
                            first.prefix(), what, a, other.prefix(), b)};
  };
  const TokenIndex &a = first.index(), &b = other.index();
  if (a.type() != b.type()) refuse("the token type", name_of(a.type()), name_of(b.type()));
  const bool has_both = a.num_sequences() > 0 && b.num_sequences() > 0;
  if (has_both && a.has_modes() != b.has_modes()) {
    refuse("sequence modes:", a.has_modes() ? "yes" : "no", b.has_modes() ? "yes" : "no");
  }
  if (!first.info() || !other.info()) return;
  const ShardInfo &x = *first.info(), &y = *other.info();
  if (x.tokenizer_digest != y.tokenizer_digest) {
    refuse("the tokenizer", x.tokenizer_digest, y.tokenizer_digest);
  }
  const auto id_or_nothing = [](Index id) { return id < 0 ? "nothing" : fmt::format("id {}", id); };
  const Index x_end = x.appends_eod ? x.eod_id : -1, y_end = y.appends_eod ? y.eod_id : -1;
  if (x_end != y_end) {
    refuse("at the end of documents", id_or_nothing(x_end), id_or_nothing(y_end));
  }
  if (x.bos_id != y.bos_id) {
    refuse("at the start of documents", id_or_nothing(x.bos_id), id_or_nothing(y.bos_id));
  }
}

void write_bin(const Shards& shards, const std::string& path) {
  double total = 0, done = 0;
  for (const Shard& shard : shards) total += static_cast<double>(shard.bin_bytes());
  Progress progress("joining tokens", Progress::Unit::bytes, total);
  FileWriter writer(path, "shard");
  for (const Shard& shard : shards) {
    const std::span<const std::byte> bytes = shard.bin().bytes();
    for (std::size_t begin = 0; begin < bytes.size(); begin += kCopyBytes) {
      const std::size_t count = std::min(kCopyBytes, bytes.size() - begin);
      writer.write(bytes.data() + begin, count);
      shard.bin().dont_need(begin, count);
      done += static_cast<double>(count);
      progress.update(done);
    }
  }
  writer.sync();
  writer.close();
}

template <class T>
void put(FileWriter& writer, T value) {
  writer.write(&value, sizeof value);
}

void write_idx(const Shards& shards, const std::string& path) {
  Index num_sequences = 0, num_documents = 0;
  bool has_modes = false;
  for (const Shard& shard : shards) {
    num_sequences += shard.index().num_sequences();
    num_documents += shard.index().num_documents();
    has_modes = has_modes || shard.index().has_modes();
  }
  FileWriter writer(path, "index");
  writer.write(token_index_header(shards.front().index().type(), num_sequences, num_documents));
  for (const Shard& shard : shards) {
    for (Index s = 0; s < shard.index().num_sequences(); ++s) {
      put(writer, static_cast<std::int32_t>(shard.index().length(s)));
    }
  }
  Index first_byte = 0;
  for (const Shard& shard : shards) {
    for (Index s = 0; s < shard.index().num_sequences(); ++s) {
      put<std::int64_t>(writer, shard.index().position(s) + first_byte);
    }
    first_byte += shard.bin_bytes();
  }
  put<std::int64_t>(writer, 0);
  Index first_sequence = 0;
  for (const Shard& shard : shards) {
    for (Index d = 1; d <= shard.index().num_documents(); ++d) {
      put<std::int64_t>(writer, shard.index().document_begin(d) + first_sequence);
    }
    first_sequence += shard.index().num_sequences();
  }
  for (const Shard& shard : shards) {
    for (Index s = 0; has_modes && s < shard.index().num_sequences(); ++s) {
      put(writer, static_cast<std::int8_t>(shard.index().mode(s)));
    }
  }
  writer.sync();
  writer.close();
}

// Only when every input has a side file: half a record would be worse than none.
void write_info(const Shards& shards, const std::string& path) {
  ShardInfo joined;
  for (const Shard& shard : shards) {
    if (!shard.info()) {
      log_warning(
          fmt::format("{} is missing: the joined file gets no side file, its tokenizer "
                      "can't be checked later",
                      info_path(shard.prefix())));
      return;
    }
    const ShardInfo& info = *shard.info();
    if (&shard == &shards.front()) {
      joined = info;
      joined.arguments_digest.clear();
      continue;
    }
    joined.largest_id = std::max(joined.largest_id, info.largest_id);
    joined.documents += info.documents;
    joined.sequences += info.sequences;
    joined.tokens += info.tokens;
    joined.sources.insert(joined.sources.end(), info.sources.begin(), info.sources.end());
  }
  FileWriter writer(path, "side");
  writer.write(joined.to_json().dump(2) + "\n");
  writer.sync();
  writer.close();
}

}  // namespace

void merge_shards(const std::vector<std::string>& prefixes, const std::string& output,
                  bool overwrite) {
  if (prefixes.empty()) throw Error{ErrorKind::usage, "nothing to join: give at least one PREFIX"};
  for (const std::string& prefix : prefixes) {
    if (prefix == output) {
      throw Error{ErrorKind::usage, output + ": is input and output; choose another --output"};
    }
  }
  const bool is_there = is_output_taken(output);
  if (is_there && !overwrite) {
    throw Error{ErrorKind::usage, bin_path(output) +
                                      ": is there already; choose another --output, "
                                      "or replace it with --overwrite"};
  }
  Shards shards;
  for (const std::string& prefix : prefixes) {
    shards.emplace_back(prefix);
    check_alike(shards.front(), shards.back());
  }
  make_directories(directory_name(output));
  remove_partial_shard(output);
  write_bin(shards, bin_path(output) + ".partial");
  write_idx(shards, idx_path(output) + ".partial");
  write_info(shards, info_path(output) + ".partial");
  // The joined file may have none: an old one must not stay.
  remove_all(info_path(output));
  publish_shard(output);
}

}  // namespace zaya
