// SPDX-License-Identifier: Apache-2.0
#include "data/merge.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/stop.h"
#include "data/document.h"
#include "data/shard.h"
#include "data/shard_writer.h"

namespace zaya {

namespace {

constexpr Index kCopyBytes = 1 << 24;

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

// A stretch of one input's tokens.
struct Section {
  std::size_t input = 0;
  Index begin = 0, end = 0;  // bytes of its .bin file
  Index size() const { return end - begin; }
};

std::vector<Section> cut_sections(const Shards& shards, Index section_bytes) {
  std::vector<Section> sections;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (Index begin = 0; begin < shards[i].bin_bytes(); begin += section_bytes) {
      sections.push_back({i, begin, std::min(begin + section_bytes, shards[i].bin_bytes())});
    }
  }
  return sections;
}

// How far a joining is. What it says is on the device.
struct Journal {
  std::string inputs_digest;
  std::vector<std::string> checksums;  // of the sections that are written, in order
  bool is_publishing = false;          // all outputs are there under temporary names
  bool has_side_file = false;

  void save(const std::string& path) const {
    Json json = Json::object();
    json.set("inputs_digest", inputs_digest);
    json.set("is_publishing", is_publishing);
    json.set("has_side_file", has_side_file);
    Json list = Json::array();
    for (const std::string& checksum : checksums) list.push(checksum);
    json.set("checksums", std::move(list));
    write_file_atomically(path, json.dump() + "\n", "journal");
  }
};

std::string journal_path(const std::string& output) { return output + ".merge.journal"; }

// What an earlier call left, when this one may go on from there.
Journal load_usable_journal(const std::string& output, const std::string& inputs_digest) {
  const std::string path = journal_path(output);
  const Journal fresh{inputs_digest, {}, false, false};
  if (!is_file(path)) return fresh;
  Journal journal;
  try {
    const Json json = Json::parse(read_file(path), path);
    journal.inputs_digest = json.at("inputs_digest").as_string();
    journal.is_publishing = json.at("is_publishing").as_bool();
    journal.has_side_file = json.at("has_side_file").as_bool();
    for (const Json& item : json.at("checksums").items()) {
      journal.checksums.push_back(item.as_string());
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::damaged) throw;
    log_warning(error.message() + "; the joining is begun anew");
    return fresh;
  }
  if (journal.inputs_digest == inputs_digest) return journal;
  log_warning(path + ": an unfinished joining had other inputs; this one is begun anew");
  return fresh;
}

// Changes when an input changes.
std::string digest_of_inputs(const Shards& shards, Index section_bytes) {
  Hasher hasher;
  hasher.add(&section_bytes, sizeof section_bytes);
  for (const Shard& shard : shards) {
    for (const InputFile& file :
         find_inputs({bin_path(shard.prefix()), idx_path(shard.prefix())})) {
      hasher.add(file.path + "\n");
      hasher.add(&file.bytes, sizeof file.bytes);
      hasher.add(&file.modified_ns, sizeof file.modified_ns);
    }
  }
  return digest_text(hasher.finish());
}

// One joining: what its steps share.
class Merge {
 public:
  Merge(const MergeOptions& options, const Shards& shards, Journal journal)
      : output_(options.output),
        section_bytes_(options.section_bytes),
        shards_(shards),
        sections_(cut_sections(shards, options.section_bytes)),
        journal_(std::move(journal)) {}

  MergeResult run();

 private:
  Index num_kept_bytes();
  bool write_bin(Index kept_bytes);
  bool copy(const Section& section, FileWriter& writer);
  std::string read_back() const;
  void write_idx() const;
  bool write_info(const std::string& checksum) const;
  void publish() const;
  std::string partial_bin() const { return bin_path(output_) + ".partial"; }
  void save_journal() const { journal_.save(journal_path(output_)); }

  const std::string& output_;
  Index section_bytes_;
  const Shards& shards_;
  std::vector<Section> sections_;
  Journal journal_;
};

// Bytes of the sections in the journal; all of it is dropped when the file does not hold them.
Index Merge::num_kept_bytes() {
  Index bytes = 0;
  const std::size_t count = std::min(journal_.checksums.size(), sections_.size());
  for (std::size_t s = 0; s < count; ++s) bytes += sections_[s].size();
  const Index found = is_file(partial_bin()) ? file_size(partial_bin()) : 0;
  if (count == journal_.checksums.size() && found >= bytes) return bytes;
  log_warning(fmt::format("{}: is shorter than its journal says; the joining is begun anew",
                          partial_bin()));
  journal_.checksums.clear();
  return 0;
}

// False when a signal asked to stop.
bool Merge::copy(const Section& section, FileWriter& writer) {
  const Shard& shard = shards_[section.input];
  Hasher hasher;
  for (Index begin = section.begin; begin < section.end; begin += kCopyBytes) {
    if (stop_signal() != 0) return false;
    const auto offset = static_cast<std::size_t>(begin);
    const auto count = static_cast<std::size_t>(std::min(kCopyBytes, section.end - begin));
    const std::byte* bytes = shard.bin().bytes().data() + offset;
    hasher.add(bytes, count);
    writer.write(bytes, count);
    shard.bin().dont_need(offset, count);
    fault_point("merge.block");
  }
  journal_.checksums.push_back(digest_text(hasher.finish()));
  return true;
}

// False when a signal asked to stop.
bool Merge::write_bin(Index kept_bytes) {
  Index total = 0, done = kept_bytes, saved = kept_bytes;
  for (const Section& section : sections_) total += section.size();
  Progress progress("joining tokens", Progress::Unit::bytes, static_cast<double>(total));
  if (kept_bytes > 0) truncate_file(partial_bin(), kept_bytes);
  FileWriter writer(partial_bin(), "shard", kept_bytes > 0);
  bool is_stopping = false;
  while (journal_.checksums.size() < sections_.size() && !is_stopping) {
    const Section& section = sections_[journal_.checksums.size()];
    is_stopping = !copy(section, writer);
    if (!is_stopping) done += section.size();
    progress.update(static_cast<double>(done));
    if (done - saved >= section_bytes_ || is_stopping) {
      writer.sync();
      save_journal();
      saved = done;
    }
    fault_point("merge.section");
  }
  writer.sync();
  writer.close();
  if (!is_stopping) save_journal();
  return !is_stopping;
}

// Compares what the device holds with what was copied and with the inputs' own checksums; returns
// the checksum of the whole.
std::string Merge::read_back() const {
  const FileReader file(partial_bin());
  file.drop_cache();
  Progress progress("checking tokens", Progress::Unit::bytes, static_cast<double>(file.size()));
  std::vector<std::byte> block(static_cast<std::size_t>(kCopyBytes));
  Hasher whole;
  std::optional<Hasher> input;
  Index at = 0;
  for (std::size_t s = 0; s < sections_.size(); ++s) {
    const Section& section = sections_[s];
    Hasher hasher;
    if (section.begin == 0) input.emplace();
    for (Index begin = section.begin; begin < section.end; begin += kCopyBytes) {
      const auto count = static_cast<std::size_t>(std::min(kCopyBytes, section.end - begin));
      file.read_at(at, block.data(), count);
      for (Hasher* each : {&hasher, &*input, &whole}) each->add(block.data(), count);
      at += static_cast<Index>(count);
      progress.update(static_cast<double>(at));
    }
    if (digest_text(hasher.finish()) != journal_.checksums[s]) {
      remove_all(journal_path(output_));
      throw Error{ErrorKind::hardware,
                  fmt::format("{}: the bytes before {} read back other than they were written; "
                              "check the device and the memory, then join again",
                              partial_bin(), at)};
    }
    const Shard& shard = shards_[section.input];
    const bool is_last = section.end == shard.bin_bytes();
    if (!is_last || !shard.info() || shard.info()->bin_checksum.empty()) continue;
    if (digest_text(input->finish()) != shard.info()->bin_checksum) {
      throw Error{ErrorKind::damaged,
                  fmt::format("{}: the checksum is not that of {}; the tokens changed after they "
                              "were written, make or fetch them again",
                              bin_path(shard.prefix()), info_path(shard.prefix()))};
    }
  }
  return digest_text(whole.finish());
}

template <class T>
void put(FileWriter& writer, T value) {
  writer.write(&value, sizeof value);
}

void Merge::write_idx() const {
  Index num_sequences = 0, num_documents = 0;
  bool has_modes = false;
  for (const Shard& shard : shards_) {
    num_sequences += shard.index().num_sequences();
    num_documents += shard.index().num_documents();
    has_modes = has_modes || shard.index().has_modes();
  }
  FileWriter writer(idx_path(output_) + ".partial", "index");
  writer.write(token_index_header(shards_.front().index().type(), num_sequences, num_documents));
  for (const Shard& shard : shards_) {
    for (Index s = 0; s < shard.index().num_sequences(); ++s) {
      put(writer, static_cast<std::int32_t>(shard.index().length(s)));
    }
  }
  Index first_byte = 0;
  for (const Shard& shard : shards_) {
    for (Index s = 0; s < shard.index().num_sequences(); ++s) {
      put<std::int64_t>(writer, shard.index().position(s) + first_byte);
    }
    first_byte += shard.bin_bytes();
  }
  put<std::int64_t>(writer, 0);
  Index first_sequence = 0;
  for (const Shard& shard : shards_) {
    for (Index d = 1; d <= shard.index().num_documents(); ++d) {
      put<std::int64_t>(writer, shard.index().document_begin(d) + first_sequence);
    }
    first_sequence += shard.index().num_sequences();
  }
  for (const Shard& shard : shards_) {
    for (Index s = 0; has_modes && s < shard.index().num_sequences(); ++s) {
      put(writer, static_cast<std::int8_t>(shard.index().mode(s)));
    }
  }
  writer.sync();
  writer.close();
}

// Only when every input has a side file, true then: half a record would be worse than none.
bool Merge::write_info(const std::string& checksum) const {
  ShardInfo joined;
  for (const Shard& shard : shards_) {
    if (!shard.info()) {
      log_warning(
          fmt::format("{} is missing: the joined file gets no side file, its tokenizer "
                      "can't be checked later",
                      info_path(shard.prefix())));
      return false;
    }
    const ShardInfo& info = *shard.info();
    if (&shard == &shards_.front()) {
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
  joined.bin_checksum = checksum;
  FileWriter writer(info_path(output_) + ".partial", "side");
  writer.write(joined.to_json().dump(2) + "\n");
  writer.sync();
  writer.close();
  return true;
}

void Merge::publish() const {
  // The joined file may have no side file: an old one must not stay.
  if (!journal_.has_side_file) remove_all(info_path(output_));
  publish_shard(output_);
  fault_point("merge.published");
  remove_all(journal_path(output_));
}

MergeResult Merge::run() {
  MergeResult result;
  if (journal_.is_publishing) {
    publish();
    return result;
  }
  if (journal_.checksums.empty()) remove_partial_shard(output_);
  result.kept_bytes = num_kept_bytes();
  if (!write_bin(result.kept_bytes)) {
    result.stop_signal = stop_signal();
    return result;
  }
  fault_point("merge.written");
  const std::string checksum = read_back();
  write_idx();
  journal_.has_side_file = write_info(checksum);
  journal_.is_publishing = true;
  save_journal();
  publish();
  return result;
}

}  // namespace

MergeResult merge_shards(const MergeOptions& options) {
  ZAYA_CHECK(options.section_bytes > 0);
  if (options.prefixes.empty()) {
    throw Error{ErrorKind::usage, "nothing to join: give at least one PREFIX"};
  }
  Shards shards;
  std::vector<std::string> files;
  for (const std::string& prefix : options.prefixes) {
    shards.emplace_back(prefix);
    check_alike(shards.front(), shards.back());
    for (const std::string& path : {bin_path(prefix), idx_path(prefix), info_path(prefix)}) {
      files.push_back(path);
    }
  }
  refuse_input_as_output(files, options.output);
  make_directories(directory_name(options.output));
  Journal journal =
      load_usable_journal(options.output, digest_of_inputs(shards, options.section_bytes));
  if (!journal.is_publishing && is_output_taken(options.output) && !options.overwrites) {
    throw Error{ErrorKind::usage, bin_path(options.output) +
                                      ": is there already; choose another --output, "
                                      "or replace it with --overwrite"};
  }
  return Merge(options, shards, std::move(journal)).run();
}

}  // namespace zaya
