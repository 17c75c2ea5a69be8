// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_train.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <queue>
#include <tuple>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/stop.h"
#include "text/pretokenize.h"
#include "text/unicode.h"

namespace zaya {

namespace {

constexpr Index kNumBytes = 256;

std::vector<std::string> special_contents(const BpeTrainOptions& options) {
  std::vector<std::string> contents{options.end_of_text, options.padding};
  contents.insert(contents.end(), options.more_special.begin(), options.more_special.end());
  std::vector<std::string> sorted = contents;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    throw Error{ErrorKind::usage, "a special token is given twice"};
  }
  for (const std::string& content : contents) {
    std::size_t length = 0;
    if (!content.empty() && is_valid_utf8(content)) next_code_point(content, length);
    if (length == 0 || length == content.size()) {
      throw Error{ErrorKind::usage, fmt::format("the special token {} needs two characters or more",
                                                json_quote(content))};
    }
  }
  const Index least = kNumBytes + static_cast<Index>(contents.size());
  if (options.vocabulary_size < least || options.vocabulary_size > Vocabulary::kIdLimit) {
    throw Error{ErrorKind::usage,
                fmt::format("a vocabulary of {} tokens can't be: the limits are {} (special tokens "
                            "and 256 bytes) and {}",
                            options.vocabulary_size, least, Vocabulary::kIdLimit)};
  }
  return contents;
}

// Words as sequences of ids, and for each pair of neighbours its count and the words that may hold
// it. Where a word no longer holds a pair its entry does no harm.
class Merger {
 public:
  Merger(const BpeTrainOptions& options, const std::vector<std::string>& specials);

  void add_words(const WordCounts& words);
  void count_pairs();
  // Makes tokens until there are enough or no pair is left; false when a stop signal arrived.
  bool run();

  std::vector<std::string> tokens;
  std::vector<std::pair<TokenId, TokenId>> merges;

 private:
  struct Word {
    std::size_t begin;
    std::uint32_t length;
    Index count;
  };
  struct Pair {
    Index count = 0;
    std::vector<std::uint32_t> words;
  };
  // The heap's order: the largest count first, then the lowest ids.
  struct Candidate {
    Index count;
    TokenId left, right;
    bool operator<(const Candidate& other) const {
      return std::tie(count, other.left, other.right) < std::tie(other.count, left, right);
    }
  };
  // A pair with the new token was made (+1) or unmade (-1) in a word.
  struct Change {
    std::uint64_t key;
    std::uint32_t word;
    std::int32_t sign;
  };

  static std::uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  Pair* find(TokenId left, TokenId right);
  Pair& find_or_add(TokenId left, TokenId right);
  std::optional<TokenId> token_for(TokenId left, TokenId right);
  void merge(TokenId left, TokenId right, TokenId product);
  void merge_in_word(std::uint32_t w, TokenId left, TokenId right, TokenId product);
  void apply_changes();

  const BpeTrainOptions& options_;
  TokenId num_special_;
  Vocabulary contents_;
  std::array<TokenId, kNumBytes> byte_ids_;
  std::vector<TokenId> symbols_;
  std::vector<Word> words_;
  // Numbers of pairs_ by key: open addressing, at most half full. Pairs stay where they are.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> slots_;
  std::vector<Pair> pairs_;
  std::priority_queue<Candidate> heap_;
  std::vector<Change> changes_;
};

constexpr std::uint64_t kEmptyKey = UINT64_MAX;

Merger::Merger(const BpeTrainOptions& options, const std::vector<std::string>& specials)
    : options_(options), num_special_(static_cast<TokenId>(specials.size())) {
  const auto add = [&](std::string content) {
    const auto id = static_cast<TokenId>(tokens.size());
    ZAYA_CHECK(contents_.add(content, id) == Vocabulary::Added::yes);
    tokens.push_back(std::move(content));
    return id;
  };
  for (const std::string& special : specials) add(special);
  std::array<unsigned char, kNumBytes> bytes;
  for (int i = 0; i < kNumBytes; ++i) bytes[i] = static_cast<unsigned char>(i);
  std::sort(bytes.begin(), bytes.end(),
            [](unsigned char a, unsigned char b) { return byte_letter(a) < byte_letter(b); });
  for (const unsigned char byte : bytes) byte_ids_[byte] = add(to_utf8(byte_letter(byte)));
  slots_.assign(1 << 16, {kEmptyKey, 0});
}

void Merger::add_words(const WordCounts& words) {
  for (const WordCounts::Entry& entry : words.entries()) {
    if (entry.length < 2) continue;
    words_.push_back({symbols_.size(), entry.length, entry.count});
    for (const char byte : words.word(entry)) {
      symbols_.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    }
  }
}

Merger::Pair* Merger::find(TokenId left, TokenId right) {
  const std::uint64_t key = key_of(left, right);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = (key * 0x9E3779B97F4A7C15u) >> 20 & mask;; i = (i + 1) & mask) {
    if (slots_[i].first == key) return &pairs_[slots_[i].second];
    if (slots_[i].first == kEmptyKey) return nullptr;
  }
}

Merger::Pair& Merger::find_or_add(TokenId left, TokenId right) {
  if (Pair* pair = find(left, right)) return *pair;
  const auto insert = [&](std::uint64_t key, std::uint32_t number) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = (key * 0x9E3779B97F4A7C15u) >> 20 & mask;
    while (slots_[i].first != kEmptyKey) i = (i + 1) & mask;
    slots_[i] = {key, number};
  };
  if (2 * (pairs_.size() + 1) > slots_.size()) {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> old(2 * slots_.size(), {kEmptyKey, 0});
    std::swap(old, slots_);
    for (const auto& [key, number] : old) {
      if (key != kEmptyKey) insert(key, number);
    }
  }
  insert(key_of(left, right), static_cast<std::uint32_t>(pairs_.size()));
  return pairs_.emplace_back();
}

void Merger::count_pairs() {
  for (std::uint32_t w = 0; w < words_.size(); ++w) {
    const Word& word = words_[w];
    for (std::size_t i = word.begin; i + 1 < word.begin + word.length; ++i) {
      Pair& pair = find_or_add(symbols_[i], symbols_[i + 1]);
      pair.count += word.count;
      if (pair.words.empty() || pair.words.back() != w) pair.words.push_back(w);
    }
  }
  for (const auto& [key, number] : slots_) {
    if (key == kEmptyKey || pairs_[number].count < options_.min_count) continue;
    heap_.push({pairs_[number].count, static_cast<TokenId>(key >> 32),
                static_cast<TokenId>(key & UINT32_MAX)});
  }
}

// The token that a pair makes; nothing when it would read like a special token. Two pairs can make
// the same token.
std::optional<TokenId> Merger::token_for(TokenId left, TokenId right) {
  std::string content = tokens[left] + tokens[right];
  if (const std::optional<TokenId> known = contents_.find(content)) {
    if (*known < num_special_) return std::nullopt;
    return known;
  }
  const auto id = static_cast<TokenId>(tokens.size());
  contents_.add(content, id);
  tokens.push_back(std::move(content));
  return id;
}

bool Merger::run() {
  const Index wanted = options_.vocabulary_size;
  Progress progress("merging pairs", Progress::Unit::items, static_cast<double>(wanted));
  while (static_cast<Index>(tokens.size()) < wanted && !heap_.empty()) {
    const Candidate top = heap_.top();
    heap_.pop();
    Pair* pair = find(top.left, top.right);
    if (pair->count != top.count) {
      if (pair->count >= options_.min_count) heap_.push({pair->count, top.left, top.right});
      continue;
    }
    if (stop_signal() != 0) return false;
    if (const std::optional<TokenId> product = token_for(top.left, top.right)) {
      merges.emplace_back(top.left, top.right);
      merge(top.left, top.right, *product);
    } else {
      *pair = Pair{};
    }
    progress.update(static_cast<double>(tokens.size()));
  }
  return true;
}

void Merger::merge(TokenId left, TokenId right, TokenId product) {
  const Pair merged = std::exchange(*find(left, right), Pair{});
  changes_.clear();
  for (const std::uint32_t w : merged.words) merge_in_word(w, left, right, product);
  // A pair can touch itself (aaa): what is left of it can't merge any more.
  find(left, right)->count = 0;
  apply_changes();
}

void Merger::merge_in_word(std::uint32_t w, TokenId left, TokenId right, TokenId product) {
  Word& word = words_[w];
  TokenId* const symbols = &symbols_[word.begin];
  const auto change = [&](TokenId a, TokenId b, std::int32_t sign) {
    if (a == product || b == product) {
      changes_.push_back({key_of(a, b), w, sign});
    } else if (Pair* pair = find(a, b)) {
      pair->count += sign * word.count;
    }
  };
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < word.length; ++i, ++kept) {
    if (symbols[i] != left || i + 1 >= word.length || symbols[i + 1] != right) {
      symbols[kept] = symbols[i];
      continue;
    }
    if (kept > 0) {
      change(symbols[kept - 1], left, -1);
      change(symbols[kept - 1], product, +1);
    }
    ++i;
    if (i + 1 < word.length) {
      change(right, symbols[i + 1], -1);
      change(product, symbols[i + 1], +1);
    }
    symbols[kept] = product;
  }
  word.length = kept;
}

void Merger::apply_changes() {
  std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
    return std::tie(a.key, a.word) < std::tie(b.key, b.word);
  });
  for (std::size_t begin = 0, end = 0; begin < changes_.size(); begin = end) {
    const std::uint64_t key = changes_[begin].key;
    Index sum = 0;
    for (; end < changes_.size() && changes_[end].key == key; ++end) {
      sum += changes_[end].sign * words_[changes_[end].word].count;
    }
    const auto left = static_cast<TokenId>(key >> 32),
               right = static_cast<TokenId>(key & UINT32_MAX);
    Pair* pair = find(left, right);
    // Rare pairs are most of all pairs; they never merge and need no list.
    if (pair == nullptr) {
      if (sum < options_.min_count) continue;
      pair = &find_or_add(left, right);
    }
    pair->count += sum;
    std::size_t num_words = pair->words.size();
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t w = changes_[i].word;
      if (num_words == 0 || pair->words.back() != w) {
        pair->words.push_back(w);
        ++num_words;
      }
    }
    if (sum > 0 && pair->count >= options_.min_count) heap_.push({pair->count, left, right});
  }
}

}  // namespace

std::optional<TrainedBpe> train_bpe(const BpeTrainOptions& options, TextSource source,
                                    ThreadPool& pool) {
  const std::vector<std::string> specials = special_contents(options);
  TrainedBpe trained;
  trained.end_of_text = options.end_of_text;
  trained.padding = options.padding;
  trained.num_special = static_cast<Index>(specials.size());
  {
    WordCounter counter(pool, options.counting);
    std::string_view text;
    while (source(text)) {
      if (stop_signal() != 0) return std::nullopt;
      counter.add(text);
    }
    trained.counts = counter.finish();
  }
  Merger merger(options, specials);
  for (WordCounts& shard : trained.counts.shards) {
    merger.add_words(shard);
    shard = WordCounts{};
  }
  trained.counts.shards.clear();
  merger.count_pairs();
  if (!merger.run()) return std::nullopt;
  trained.tokens = std::move(merger.tokens);
  trained.merges = std::move(merger.merges);
  return trained;
}

namespace {

// One entry a line, so that two files can be compared.
template <class Range, class Write>
void append_lines(std::string& out, const Range& range, Write write) {
  bool is_first = true;
  for (const auto& one : range) {
    out += is_first ? "\n      " : ",\n      ";
    write(one);
    is_first = false;
  }
}

}  // namespace

std::string tokenizer_json(const TrainedBpe& trained) {
  std::string out = R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [)";
  for (Index id = 0; id < trained.num_special; ++id) {
    out += fmt::format(
        "{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": false, "
        "\"rstrip\": false, \"normalized\": false, \"special\": true}}",
        id == 0 ? "" : ",", id, json_quote(trained.tokens[id]));
  }
  out += fmt::format(R"(
  ],
  "normalizer": null,
  "pre_tokenizer": {{
    "type": "Sequence",
    "pretokenizers": [
      {{"type": "Split", "pattern": {{"Regex": {}}}, "behavior": "Isolated", "invert": false}},
      {{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}}
    ]
  }},
  "post_processor": {{
    "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true
  }},
  "decoder": {{
    "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true
  }},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {{)",
                     json_quote(kTrainPattern));
  Index id = 0;
  append_lines(out, trained.tokens, [&](const std::string& content) {
    out += fmt::format("{}: {}", json_quote(content), id++);
  });
  out += "\n    },\n    \"merges\": [";
  append_lines(out, trained.merges, [&](const std::pair<TokenId, TokenId>& merge) {
    out += fmt::format("[{}, {}]", json_quote(trained.tokens[merge.first]),
                       json_quote(trained.tokens[merge.second]));
  });
  out += "\n    ]\n  }\n}\n";
  return out;
}

std::string tokenizer_config_json(const TrainedBpe& trained) {
  Json config = Json::object();
  config.set("add_bos_token", false);
  config.set("bos_token", trained.end_of_text);
  config.set("clean_up_tokenization_spaces", false);
  config.set("eos_token", trained.end_of_text);
  config.set("pad_token", trained.padding);
  config.set("tokenizer_class", "PreTrainedTokenizerFast");
  return config.dump(2) + "\n";
}

}  // namespace zaya
