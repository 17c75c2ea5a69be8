// SPDX-License-Identifier: Apache-2.0
//
// How often each pre-token ("word") stands in a training text. Counting runs on all threads in
// bounded memory, and the counts depend on the texts only, not on threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "base/types.h"

namespace zaya {

// The Llama 3 pattern, which every byte-level tokenizer trained here uses.
extern const char kTrainPattern[];

// Words and their counts: a hash table over one string of all words.
class WordCounts {
 public:
  struct Entry {
    std::uint64_t hash;
    Index count;
    std::size_t begin;
    std::uint32_t length;
  };

  // `hash` is hash64(word).
  void add(std::string_view word, std::uint64_t hash, Index count);
  const std::vector<Entry>& entries() const { return entries_; }
  std::string_view word(const Entry& entry) const {
    return std::string_view(bytes_).substr(entry.begin, entry.length);
  }
  // Drops all words with smaller counts.
  void keep_at_least(Index count);
  // Empties the table but keeps its memory.
  void clear();

 private:
  void rehash(std::size_t num_slots);

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_;  // number of an entry + 1, or 0
};

struct WordCounterOptions {
  // With more different words than this the rarest are forgotten, again and again as needed.
  Index most_words = 6'000'000;
  // Longer words teach nothing (base64, for example) and are left out.
  Index longest_word = 4096;
  // Texts are collected up to about this size, then counted.
  Index batch_bytes = 32 << 20;
};

class WordCounter {
 public:
  // `pool` must outlive this.
  explicit WordCounter(ThreadPool& pool, WordCounterOptions options = {});
  ~WordCounter();
  WordCounter(const WordCounter&) = delete;
  WordCounter& operator=(const WordCounter&) = delete;

  // One document. What is not UTF-8 counts as U+FFFD.
  void add(std::string_view document);

  struct Result {
    std::vector<WordCounts> shards;  // each word is in one of them
    Index num_words = 0;             // different ones
    Index num_documents = 0, num_bytes = 0;
    Index num_too_long = 0;
    // Words that occurred less often than this may be missing or be counted too low; 0: all there.
    Index forgotten_below = 0;
  };
  // Counts what is left. Nothing may be added afterwards.
  Result finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
