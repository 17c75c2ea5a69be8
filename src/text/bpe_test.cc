// SPDX-License-Identifier: Apache-2.0
//
// The model against its plain definition: look at all pairs, merge the best one, begin again.
#include "text/bpe.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/rng.h"
#include "text/testing.h"

namespace zaya {

namespace {

struct Model {
  std::vector<std::string> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
};

// Random merges over an alphabet, some of which make the same token in two ways.
Model random_model(const Strings& alphabet, int num_merges, std::uint64_t seed) {
  const Rng rng(seed, "random model");
  Model model;
  model.vocabulary = alphabet;
  std::set<std::pair<std::string, std::string>> seen;
  std::uint64_t counter = 0;
  while (static_cast<int>(model.merges.size()) < num_merges) {
    const std::string left = model.vocabulary[rng.below(model.vocabulary.size(), counter++)];
    const std::string right = model.vocabulary[rng.below(model.vocabulary.size(), counter++)];
    if (left.size() + right.size() > 12 || !seen.emplace(left, right).second) continue;
    model.merges.emplace_back(left, right);
    const std::string product = left + right;
    if (std::find(model.vocabulary.begin(), model.vocabulary.end(), product) ==
        model.vocabulary.end()) {
      model.vocabulary.push_back(product);
    }
  }
  return model;
}

Strings plain_encode(const Model& model, Strings symbols) {
  std::map<std::pair<std::string, std::string>, std::size_t> ranks;
  for (std::size_t i = 0; i < model.merges.size(); ++i) ranks[model.merges[i]] = i;
  while (true) {
    std::size_t best = model.merges.size(), place = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found != ranks.end() && found->second < best) {
        best = found->second;
        place = i;
      }
    }
    if (best == model.merges.size()) return symbols;
    symbols[place] += symbols[place + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

// Long parts are cut where no merge can reach across only if there is an unknown token.
void compare(const Strings& alphabet, int num_merges, std::uint64_t seed, bool is_cut) {
  const Model model = random_model(alphabet, num_merges, seed);
  TestTokenizer t;
  t.vocabulary = model.vocabulary;
  t.merges = model.merges;
  if (is_cut) {
    t.vocabulary.push_back("<unk>");
    t.model_members = R"("unk_token":"<unk>",)";
  }
  const Tokenizer tokenizer = t.load();
  const Rng rng(seed, "random text");
  std::uint64_t counter = 0;
  for (const std::size_t length : {1, 2, 3, 5, 8, 20, 63, 64, 65, 66, 130, 400}) {
    for (int round = 0; round < 5; ++round) {
      Strings symbols;
      std::string text;
      for (std::size_t i = 0; i < length; ++i) {
        symbols.push_back(alphabet[rng.below(alphabet.size(), counter++)]);
        text += symbols.back();
      }
      CAPTURE(text);
      CHECK(tokens_of(tokenizer, text) == plain_encode(model, symbols));
    }
  }
}

}  // namespace

TEST_CASE("short, long and cut parts give what the definition gives") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    compare({"a", "b"}, 20, seed, seed % 2 == 0);
    compare({"a", "b", "c", "\xC3\xA9", "\xE2\x96\x81", "\xF0\x9F\x98\x80"}, 30, seed,
            seed % 2 == 0);
    compare({"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}, 25, seed, seed % 2 == 0);
  }
}

TEST_CASE("characters that are no token fall back to bytes, the unknown token, or nothing") {
  TestTokenizer t;
  t.vocabulary = {"<unk>", "a", "b", "ab", "<0xC3>", "<0xA9>", "<0xE2>"};
  t.merges = {{"a", "b"}};
  CHECK(tokens_of(t.load(),
                  "a\xC3\xA9"
                  "b") == Strings{"ab"});
  t.model_members = R"("unk_token":"<unk>",)";
  CHECK(tokens_of(t.load(), "a??b") == Strings{"a", "<unk>", "<unk>", "b"});
  t.model_members = R"("unk_token":"<unk>","fuse_unk":true,)";
  CHECK(tokens_of(t.load(), "a??b") == Strings{"a", "<unk>", "b"});
  t.model_members = R"("unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,)";
  // One byte of U+2581 is no token: then none of them is used. Bytes overtake a waiting <unk>.
  CHECK(tokens_of(t.load(),
                  "a\xC3\xA9\xE2\x96\x81"
                  "b") == Strings{"a", "<0xC3>", "<0xA9>", "<unk>", "b"});
  CHECK(tokens_of(t.load(),
                  "?\xC3\xA9"
                  "b") == Strings{"<0xC3>", "<0xA9>", "<unk>", "b"});
}

TEST_CASE("byte tokens and the unknown token may merge with their neighbours") {
  TestTokenizer t;
  t.vocabulary = {"<unk>", "a", "<0xC3>", "<0xA9>", "<0xC3><0xA9>", "<unk>a"};
  t.merges = {{"<0xC3>", "<0xA9>"}, {"<unk>", "a"}};
  t.model_members = R"("unk_token":"<unk>","byte_fallback":true,)";
  CHECK(tokens_of(t.load(), "a\xC3\xA9?a") == Strings{"a", "<0xC3><0xA9>", "<unk>a"});
}

TEST_CASE("with ignore_merges a part that is a token is that token") {
  TestTokenizer t;
  t.vocabulary = {"a", "b", "ab", "aab"};
  t.merges = {{"a", "b"}};
  CHECK(tokens_of(t.load(), "aab") == Strings{"a", "ab"});
  t.model_members = R"("ignore_merges":true,)";
  CHECK(tokens_of(t.load(), "aab") == Strings{"aab"});
  TestTokenizer bytes = byte_tokenizer();
  bytes.vocabulary.push_back(
      "\xC4\xA0"
      "the");
  bytes.model_members = R"("ignore_merges":true,)";
  CHECK(tokens_of(bytes.load(), " the") == Strings{"\xC4\xA0"
                                                   "the"});
}

TEST_CASE("what was encoded before does not change the result") {
  TestTokenizer t = byte_tokenizer();
  for (const char* token : {"th", "the", "in", "ing"}) t.vocabulary.push_back(token);
  t.merges = {{"t", "h"}, {"th", "e"}, {"i", "n"}, {"in", "g"}};
  const Tokenizer tokenizer = t.load();
  Encoder used(tokenizer);
  std::vector<TokenId> ids;
  for (int i = 0; i < 100'000; ++i) used.encode("thing" + std::to_string(i), {}, ids);
  for (const std::string text : {"the thing", "thing7", "other"}) {
    std::vector<TokenId> again, fresh;
    used.encode(text, {}, again);
    Encoder(tokenizer).encode(text, {}, fresh);
    CHECK(again == fresh);
  }
}

TEST_CASE("a part of a million characters takes time in proportion") {
  TestTokenizer t;
  t.vocabulary = {"a", "aa", "aaaa", "aaaaaaaa", "b"};
  t.merges = {{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}};
  const Tokenizer tokenizer = t.load();
  const auto start = std::chrono::steady_clock::now();
  CHECK(tokenizer.encode(std::string(1'000'000, 'a')).size() == 125'000);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  // Some 0.1 s; a quadratic method would take an hour.
  CHECK(taken.count() < 60);
}

}  // namespace zaya
