// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_cache.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/fault_point.h"
#include "test_folder.h"
#include "text/testing.h"

namespace zaya {

namespace {

constexpr Hash128 kSource{7, 11};
constexpr std::size_t kHeadBytes = 64;

TestTokenizer with_merges() {
  TestTokenizer t = byte_tokenizer();
  t.vocabulary.insert(t.vocabulary.end(), {"th", "the", "in"});
  t.merges = {{"t", "h"}, {"th", "e"}, {"i", "n"}};
  t.added_tokens =
      R"([{"id":300,"content":"<s>","single_word":false,"lstrip":true,"rstrip":false,)"
      R"("normalized":false,"special":true},{"id":259,"content":"Ab","single_word":true,)"
      R"("lstrip":false,"rstrip":true,"normalized":true,"special":false}])";
  t.post_processor = R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"S"}},)"
                     R"({"Sequence":{"id":"A"}}],"special_tokens":{"S":{"ids":[300]}}})";
  return t;
}

// Characters instead of bytes, with byte tokens, as Gemma has it.
TestTokenizer with_fallback() {
  TestTokenizer t;
  t.normalizer = R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})";
  t.decoder = R"({"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]})";
  t.model_members = R"("byte_fallback":true,"fuse_unk":true,"unk_token":"<unk>",)";
  t.vocabulary = {"<unk>", "\u2581", "t", "h", "e", "th", "the", "\u00E9", "\u2581the"};
  for (const char* digits = "0123456789ABCDEF"; const int byte : {0xC3, 0xA8, 0x69, 0x6E}) {
    t.vocabulary.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
  }
  t.merges = {{"t", "h"}, {"th", "e"}, {"\u2581", "the"}};
  return t;
}

std::string problem(std::string_view bytes, Hash128 source = kSource) {
  try {
    static_cast<void>(decode_tokenizer_cache(bytes, source, "t"));
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::damaged);
    return error.message();
  }
}

std::string cache_of(const TestTokenizer& t) {
  return encode_tokenizer_cache(t.load().model(), kSource);
}

// A file large enough to be cached, and the loader's view of it.
struct LargeFile {
  TestFolder folder{"tokenizer-cache"};
  std::string path = folder.file("tokenizer.json");
  std::string cache = folder.file(".tokenizer.json.zaya-cache");

  explicit LargeFile(const TestTokenizer& t = with_merges()) {
    const std::string json = t.json();
    write_file_atomically(path, json.substr(0, json.size() - 1) + R"(,"notes":")" +
                                    std::string(kLeastCachedBytes, 'x') + R"("})");
  }
};

}  // namespace

TEST_CASE("a cache gives the tokenizer that it was made of") {
  for (const TestTokenizer& t : {byte_tokenizer(), with_merges(), with_fallback()}) {
    const std::string bytes = cache_of(t);
    const auto model = decode_tokenizer_cache(bytes, kSource, "t");
    CHECK(encode_tokenizer_cache(*model, kSource) == bytes);
    CHECK(model->bpe->num_merges() == t.merges.size());
    CHECK(model->vocabulary.size() == static_cast<Index>(t.vocabulary.size()));
  }
}

TEST_CASE("a changed bit anywhere in a cache is found") {
  for (const TestTokenizer& t : {with_merges(), with_fallback()}) {
    std::string bytes = cache_of(t);
    REQUIRE(problem(bytes).empty());
    // Every bit of the head, and one in every stretch of the tables.
    const std::size_t stride = bytes.size() / 200 + 1;
    for (std::size_t at = 0; at < bytes.size(); at += at < kHeadBytes ? 1 : stride) {
      for (int bit = 0; bit < (at < kHeadBytes ? 8 : 1); ++bit) {
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << bit);
        CHECK_FALSE(problem(bytes).empty());
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << bit);
      }
    }
    for (std::size_t size = 0; size < bytes.size(); size += stride) {
      CHECK_FALSE(problem(std::string_view(bytes).substr(0, size)).empty());
    }
    CHECK_FALSE(problem(bytes + '\0').empty());
  }
}

TEST_CASE("caches of another file or version are told by their reason") {
  std::string bytes = cache_of(byte_tokenizer());
  CHECK(problem(bytes, Hash128{7, 12}) == "made of another tokenizer.json");
  bytes[8] ^= 1;
  CHECK(problem(bytes) == "made by another version of the program or another machine");
  bytes[0] ^= 1;
  CHECK(problem(bytes) == "not a tokenizer cache");
  CHECK(problem("") == "too short");
}

TEST_CASE("tables that lie behind a right checksum are refused or harmless") {
  const std::string tables = cache_of(with_merges()).substr(kHeadBytes);
  std::string changed = tables;
  int num_refused = 0;
  for (std::size_t at = 0; at < tables.size(); at += 11) {
    changed[at] = static_cast<char>(tables[at] ^ 1 << at % 8);
    try {
      const auto model =
          decode_tokenizer_cache(seal_tokenizer_cache(changed, kSource), kSource, "t");
      BpeScratch scratch;
      std::vector<TokenId> ids;
      model->bpe->encode("then in the Ab inn", scratch, ids);
      for (const TokenId id : ids) CHECK(model->content(id).has_value());
      CHECK_FALSE(model->vocabulary.find("no such token").has_value());
    } catch (const Error&) {
      ++num_refused;
    }
    changed[at] = tables[at];
  }
  CHECK(num_refused > 300);
}

TEST_CASE("large files are loaded through a cache beside them, small ones are not") {
  const LargeFile large;
  const Tokenizer first = Tokenizer::load(large.path);
  REQUIRE(is_file(large.cache));
  CHECK(list_directory(large.folder.path()).size() == 2);
  const Tokenizer second = Tokenizer::load(large.path);
  const std::string text = " the <s> inn Ab  then \xF0\x9F\x98\x80";
  CHECK(second.encode(text, {.add_special = true}) == first.encode(text, {.add_special = true}));
  CHECK(second.decode(first.encode(text)) == first.decode(first.encode(text)));
  CHECK(second.special_tokens() == first.special_tokens());
  CHECK(second.digest() == first.digest());
  CHECK(second.vocabulary_size() == 301);

  // A cache that says something else for this very file: it is what counts.
  const TestTokenizer plain = byte_tokenizer();
  write_file_atomically(large.cache, encode_tokenizer_cache(plain.load().model(), first.digest()));
  CHECK(Tokenizer::load(large.path).vocabulary_size() == 256);

  const std::string small = large.folder.file("small.json");
  write_file_atomically(small, plain.json());
  static_cast<void>(Tokenizer::load(small));
  CHECK(list_directory(large.folder.path()).size() == 3);
}

TEST_CASE("a damaged or outdated cache is made anew") {
  const LargeFile large;
  static_cast<void>(Tokenizer::load(large.path));
  const std::string right = read_file(large.cache);
  for (const std::size_t at : {std::size_t{3}, std::size_t{20}, std::size_t{50}, std::size_t{70},
                               right.size() / 2, right.size() - 1}) {
    std::string wrong = right;
    wrong[at] ^= 4;
    write_file_atomically(large.cache, wrong);
    CHECK(Tokenizer::load(large.path).vocabulary_size() == 301);
    CHECK(read_file(large.cache) == right);
  }
  write_file_atomically(large.cache, "");
  CHECK(Tokenizer::load(large.path).vocabulary_size() == 301);
  CHECK(read_file(large.cache) == right);
  write_file_atomically(large.path, read_file(large.path) + "\n");
  CHECK(Tokenizer::load(large.path).vocabulary_size() == 301);
  CHECK(read_file(large.cache) != right);
}

TEST_CASE("where no cache can be written the tokenizer loads all the same") {
  const LargeFile large;
  arm_fault_point("tokenizer_cache.write=enospc");
  CHECK(Tokenizer::load(large.path).vocabulary_size() == 301);
  arm_fault_point("");
  CHECK(list_directory(large.folder.path()) == Strings{"tokenizer.json"});
  make_directories(large.cache);
  CHECK(Tokenizer::load(large.path).vocabulary_size() == 301);
  CHECK(list_directory(large.folder.path()).size() == 2);
}

TEST_CASE("many at once may load, write and replace a cache") {
  const LargeFile large;
  std::vector<int> num_wrong(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i) {
        const Tokenizer tokenizer = Tokenizer::load(large.path);
        if (tokenizer.encode("the") != std::vector<TokenId>{257}) ++num_wrong[t];
        if (i % 2 == t % 2) remove_all(large.cache);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(num_wrong == std::vector<int>(4, 0));
  static_cast<void>(Tokenizer::load(large.path));
  CHECK(list_directory(large.folder.path()).size() == 2);
}

}  // namespace zaya
