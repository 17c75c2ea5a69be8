// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_train.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/rng.h"
#include "text/testing.h"

namespace zaya {

namespace {

// Documents of made-up words with frequencies like those of a language.
Strings sample_documents(int count) {
  const Rng rng(5, "documents");
  const Strings parts{"ta", "re", "min", "o", "s", "ing", "er", "qu", "\xC3\xA9", "\xE6\xBC\xA2"};
  std::uint64_t counter = 0;
  Strings words;
  for (int i = 0; i < 400; ++i) {
    std::string& word = words.emplace_back();
    for (std::uint64_t n = 1 + rng.below(3, counter++); n > 0; --n) {
      word += parts[rng.below(parts.size(), counter++)];
    }
  }
  Strings documents;
  for (int d = 0; d < count; ++d) {
    std::string& document = documents.emplace_back();
    for (int i = 0; i < 200; ++i) {
      const double u = rng.uniform(counter++);
      document += words[static_cast<std::size_t>(u * u * u * 400)];
      document += i % 17 == 16 ? ".\n" : " ";
    }
  }
  return documents;
}

TrainedBpe train(const Strings& documents, BpeTrainOptions options, int num_threads = 1) {
  ThreadPool pool(num_threads);
  std::size_t at = 0;
  const auto next = [&](std::string_view& text) {
    if (at == documents.size()) return false;
    text = documents[at++];
    return true;
  };
  std::optional<TrainedBpe> trained = train_bpe(options, next, pool);
  REQUIRE(trained.has_value());
  return std::move(*trained);
}

BpeTrainOptions sized(Index vocabulary_size) {
  BpeTrainOptions options;
  options.vocabulary_size = vocabulary_size;
  return options;
}

// The definition: count all pairs of all words anew for every merge.
Strings plain_merges(const Strings& words, int count) {
  std::vector<Strings> split;
  Strings order;
  for (const std::string& word : words) {
    std::string letters;
    append_byte_letters(word, letters);
    Strings& symbols = split.emplace_back();
    for (std::size_t at = 0; at < letters.size();) {
      const std::size_t begin = at;
      next_code_point(letters, at);
      symbols.push_back(letters.substr(begin, at - begin));
    }
  }
  // Ids in the order of making; single letters by code point, before all others.
  std::map<std::string, int> made;
  const auto id = [&](const std::string& symbol) {
    const auto found = made.find(symbol);
    if (found != made.end()) return 1'000'000 + found->second;
    std::size_t at = 0;
    return static_cast<int>(next_code_point(symbol, at));
  };
  Strings merges;
  for (int round = 0; round < count; ++round) {
    std::map<std::pair<std::string, std::string>, int> pairs;
    for (const Strings& symbols : split) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) ++pairs[{symbols[i], symbols[i + 1]}];
    }
    const auto best = std::max_element(pairs.begin(), pairs.end(), [&](auto& a, auto& b) {
      if (a.second != b.second) return a.second < b.second;
      return std::pair(id(a.first.first), id(a.first.second)) >
             std::pair(id(b.first.first), id(b.first.second));
    });
    if (best == pairs.end() || best->second < 2) break;
    const auto [left, right] = best->first;
    merges.push_back(left + "+" + right);
    made.emplace(left + right, static_cast<int>(made.size()));
    for (Strings& symbols : split) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        if (symbols[i] != left || symbols[i + 1] != right) continue;
        symbols[i] += right;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

Strings merge_names(const TrainedBpe& trained) {
  Strings names;
  for (const auto& [left, right] : trained.merges) {
    names.push_back(trained.tokens[left] + "+" + trained.tokens[right]);
  }
  return names;
}

}  // namespace

TEST_CASE("merges are those of the definition") {
  Strings words;
  const Rng rng(9, "words");
  std::uint64_t counter = 0;
  std::string text;
  for (int i = 0; i < 400; ++i) {
    std::string word = i == 0 ? "" : " ";
    for (std::uint64_t n = 1 + rng.below(9, counter++); n > 0; --n) {
      word += "aaabbcde"[rng.below(8, counter++)];
    }
    words.push_back(word);
    text += word;
  }
  // Only as long as no two pairs make the same token does the definition number tokens so.
  const TrainedBpe trained = train({text}, sized(260 + 60));
  CHECK(merge_names(trained) == plain_merges(words, static_cast<int>(trained.merges.size())));
}

TEST_CASE("the result does not depend on threads, order, or how texts are collected") {
  Strings documents = sample_documents(60);
  const std::string one = tokenizer_json(train(documents, sized(700)));
  CHECK(one == tokenizer_json(train(documents, sized(700), 3)));
  std::reverse(documents.begin(), documents.end());
  BpeTrainOptions options = sized(700);
  options.counting.batch_bytes = 1000;
  CHECK(one == tokenizer_json(train(documents, options, 2)));
}

TEST_CASE("a long document counts as if it were not cut for the threads") {
  std::string text;
  for (const std::string& document : sample_documents(3000)) text += document;
  REQUIRE(text.size() > (3 << 20));
  ThreadPool pool(3);
  WordCounter whole(pool), pieces(pool);
  whole.add(text);
  const WordCounter::Result result = whole.finish();
  std::map<std::string, Index> counts, wanted;
  for (const WordCounts& shard : result.shards) {
    for (const WordCounts::Entry& e : shard.entries())
      counts[std::string(shard.word(e))] += e.count;
  }
  const Regex pattern(kTrainPattern, "t");
  RegexScratch scratch;
  MatchIterator matches(pattern, text, scratch);
  while (const std::optional<Match> match = matches.next()) {
    ++wanted[text.substr(match->begin, match->end - match->begin)];
  }
  CHECK(counts == wanted);
}

TEST_CASE("a trained tokenizer loads, compresses and gives every text back") {
  const Strings documents = sample_documents(60);
  const TrainedBpe trained = train(documents, sized(560));
  const Tokenizer tokenizer =
      Tokenizer::from_memory(tokenizer_json(trained), "t", tokenizer_config_json(trained));
  CHECK(tokenizer.vocabulary_size() == 560);
  CHECK(tokenizer.eos() == 0);
  CHECK(tokenizer.pad() == 1);
  CHECK(tokenizer.special_tokens() ==
        Strings{"<|endoftext|>", "<|padding|>", "<|im_start|>", "<|im_end|>"});
  CHECK(4 * tokenizer.encode(documents[0]).size() < 3 * documents[0].size());
  for (const std::string& text :
       {documents[0], std::string("New words, 12345 and \xF0\x9F\x98\x80\r\n\n  x"),
        std::string("\0\x01\x7F", 3)}) {
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
}

TEST_CASE("special tokens in the training text are ordinary text") {
  Strings documents;
  for (int i = 0; i < 50; ++i) documents.push_back("<|endoftext|> and <|endoftext|>\n");
  const TrainedBpe trained = train(documents, sized(320));
  CHECK(std::count(trained.tokens.begin(), trained.tokens.end(), "<|endoftext|>") == 1);
  const Tokenizer tokenizer = Tokenizer::from_memory(tokenizer_json(trained), "t");
  CHECK(tokenizer.encode("<|endoftext|>") == std::vector<TokenId>{0});
  const std::vector<TokenId> as_text =
      tokenizer.encode("<|endoftext|>", {.no_special_in_text = true});
  CHECK(as_text.size() > 1);
  CHECK(tokenizer.decode(as_text) == "<|endoftext|>");
}

TEST_CASE("merges never make a token that reads like a special one") {
  BpeTrainOptions options = sized(300);
  options.more_special = {"the"};
  const TrainedBpe trained = train({"the the the the then then then"}, options);
  CHECK(std::count(trained.tokens.begin(), trained.tokens.end(), "the") == 1);
  CHECK(Tokenizer::from_memory(tokenizer_json(trained), "t").decode(std::vector<TokenId>{2}) ==
        "the");
}

TEST_CASE("a text with few pairs gives fewer tokens, an impossible size is refused") {
  CHECK(train({"ab ab"}, sized(5000)).tokens.size() == 261);
  CHECK(train({}, sized(5000)).tokens.size() == 260);
  CHECK_THROWS_AS(train({"a"}, sized(259)), Error);
  BpeTrainOptions options;
  options.padding = options.end_of_text;
  CHECK_THROWS_AS(train({"a"}, options), Error);
  options.padding = "x";
  CHECK_THROWS_AS(train({"a"}, options), Error);
}

TEST_CASE("rare words are forgotten when there are too many, and that is said") {
  BpeTrainOptions options = sized(300);
  options.counting.most_words = 100;
  options.counting.batch_bytes = 2000;
  Strings documents;
  for (int i = 0; i < 3000; ++i)
    documents.push_back("common word" + std::to_string(i % 1000) + "x");
  const TrainedBpe one = train(documents, options, 1), three = train(documents, options, 3);
  CHECK(one.counts.forgotten_below > 0);
  CHECK(one.counts.num_words <= 100);
  CHECK(tokenizer_json(one) == tokenizer_json(three));
  CHECK(std::count(one.tokens.begin(), one.tokens.end(), "common") == 1);
  options.counting.longest_word = 5;
  CHECK(train(documents, options).counts.num_too_long == 3000);
}

}  // namespace zaya
