// SPDX-License-Identifier: Apache-2.0
#include "text/word_counts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace zaya {

const char kTrainPattern[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                             R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

void WordCounts::add(std::string_view word, std::uint64_t hash, Index count) {
  if (2 * (entries_.size() + 1) > slots_.size()) {
    rehash(std::max<std::size_t>(2 * slots_.size(), 1024));
  }
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash & mask;
  for (; slots_[i] != 0; i = (i + 1) & mask) {
    Entry& entry = entries_[slots_[i] - 1];
    if (entry.hash == hash && this->word(entry) == word) {
      entry.count += count;
      return;
    }
  }
  entries_.push_back({hash, count, bytes_.size(), static_cast<std::uint32_t>(word.size())});
  bytes_.append(word);
  slots_[i] = static_cast<std::uint32_t>(entries_.size());
}

void WordCounts::rehash(std::size_t num_slots) {
  slots_.assign(num_slots, 0);
  const std::size_t mask = num_slots - 1;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    std::size_t i = entries_[e].hash & mask;
    while (slots_[i] != 0) i = (i + 1) & mask;
    slots_[i] = static_cast<std::uint32_t>(e + 1);
  }
}

void WordCounts::keep_at_least(Index count) {
  WordCounts kept;
  for (const Entry& entry : entries_) {
    if (entry.count >= count) kept.add(word(entry), entry.hash, entry.count);
  }
  *this = std::move(kept);
}

void WordCounts::clear() {
  bytes_.clear();
  entries_.clear();
  std::fill(slots_.begin(), slots_.end(), 0);
}

namespace {

constexpr int kShardBits = 4;
constexpr std::size_t kShards = std::size_t{1} << kShardBits;
constexpr std::size_t kChunkBytes = 1 << 20;

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Where a chunk of a long text may end: at least `from`, and between an ASCII letter and another
// ASCII character that is none. The pattern always has a border there, whatever stands around.
std::size_t chunk_end(std::string_view text, std::size_t from) {
  for (std::size_t at = from; at < text.size(); ++at) {
    const bool is_ascii = static_cast<unsigned char>(text[at]) < 0x80;
    if (is_ascii && !is_ascii_letter(text[at]) && is_ascii_letter(text[at - 1])) return at;
  }
  return text.size();
}

}  // namespace

struct WordCounter::State {
  struct Worker {
    RegexScratch regex;
    std::array<WordCounts, kShards> counts;
    Index num_too_long = 0;
  };
  struct Chunk {
    std::size_t begin, end;
  };

  ThreadPool& pool;
  WordCounterOptions options;
  Regex pattern{kTrainPattern, "the training pattern"};
  std::string batch;
  std::vector<Chunk> chunks;
  std::vector<Worker> workers;
  Result result;

  State(ThreadPool& the_pool, WordCounterOptions the_options)
      : pool(the_pool), options(the_options), workers(the_pool.num_threads()) {
    result.shards.resize(kShards);
  }

  void count_chunk(std::string_view text, Worker& worker) const;
  void count_batch();
  void forget_rare();
};

void WordCounter::State::count_chunk(std::string_view text, Worker& worker) const {
  [[maybe_unused]] std::size_t gap = 0;
  MatchIterator matches(pattern, text, worker.regex);
  while (const std::optional<Match> match = matches.next()) {
    ZAYA_DCHECK(match->begin == gap);
    gap = match->end;
    const std::string_view word = text.substr(match->begin, match->end - match->begin);
    if (static_cast<Index>(word.size()) > options.longest_word) {
      ++worker.num_too_long;
      continue;
    }
    const std::uint64_t hash = hash64(word);
    worker.counts[hash >> (64 - kShardBits)].add(word, hash, 1);
  }
}

void WordCounter::State::count_batch() {
  pool.run(static_cast<Index>(chunks.size()), [&](Index task, int worker) {
    const Chunk& chunk = chunks[task];
    count_chunk(std::string_view(batch).substr(chunk.begin, chunk.end - chunk.begin),
                workers[worker]);
  });
  pool.run(static_cast<Index>(kShards), [&](Index shard, int) {
    WordCounts& total = result.shards[shard];
    for (Worker& worker : workers) {
      WordCounts& part = worker.counts[shard];
      for (const WordCounts::Entry& entry : part.entries()) {
        total.add(part.word(entry), entry.hash, entry.count);
      }
      part.clear();
    }
  });
  for (Worker& worker : workers) result.num_too_long += std::exchange(worker.num_too_long, 0);
  batch.clear();
  chunks.clear();
  forget_rare();
}

// The threshold is the least one that leaves at most half of the room in use.
void WordCounter::State::forget_rare() {
  constexpr Index kCounted = 1024;
  Index num_words = 0;
  for (const WordCounts& shard : result.shards) {
    num_words += static_cast<Index>(shard.entries().size());
  }
  result.num_words = num_words;
  if (num_words <= options.most_words) return;
  std::vector<Index> num_with(kCounted + 1);
  for (const WordCounts& shard : result.shards) {
    for (const WordCounts::Entry& entry : shard.entries()) {
      ++num_with[std::min(entry.count, kCounted)];
    }
  }
  Index keep = 1;
  while (keep < kCounted && num_words > options.most_words / 2) num_words -= num_with[keep++];
  pool.run(static_cast<Index>(kShards),
           [&](Index shard, int) { result.shards[shard].keep_at_least(keep); });
  result.num_words = num_words;
  // A word could fall below the threshold in each round.
  result.forgotten_below += keep;
}

WordCounter::WordCounter(ThreadPool& pool, WordCounterOptions options)
    : state_(std::make_unique<State>(pool, options)) {}
WordCounter::~WordCounter() = default;

void WordCounter::add(std::string_view document) {
  State& s = *state_;
  ++s.result.num_documents;
  s.result.num_bytes += static_cast<Index>(document.size());
  while (!document.empty()) {
    const std::size_t end =
        document.size() <= 2 * kChunkBytes ? document.size() : chunk_end(document, kChunkBytes);
    const std::size_t begin = s.batch.size();
    append_valid_utf8(document.substr(0, end), s.batch);
    document.remove_prefix(end);
    s.chunks.push_back({begin, s.batch.size()});
    if (static_cast<Index>(s.batch.size()) >= s.options.batch_bytes) s.count_batch();
  }
}

WordCounter::Result WordCounter::finish() {
  state_->count_batch();
  return std::move(state_->result);
}

}  // namespace zaya
