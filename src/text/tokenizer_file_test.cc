// SPDX-License-Identifier: Apache-2.0
//
// Files that are damaged or ask for what is not supported: each is refused with its reason.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "test_folder.h"
#include "text/testing.h"

namespace zaya {

namespace {

TestTokenizer small() {
  TestTokenizer t;
  t.vocabulary = {"a", "b", "ab"};
  t.merges = {{"a", "b"}};
  return t;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

// "KIND: message", or nothing when the file is fine.
std::string refusal(std::string_view json) {
  try {
    Tokenizer::from_memory(json, "t");
    return "";
  } catch (const Error& error) {
    return (error.kind() == ErrorKind::usage ? "usage: " : "damaged: ") + error.message();
  }
}

}  // namespace

TEST_CASE("a small file loads, and what the format lets be left out may be left out") {
  CHECK(refusal(small().json()).empty());
  const std::string least =
      R"({"version":"1.0","model":{"type":"BPE","vocab":{},"merges":[]},"more":[1]})";
  CHECK(refusal(least).empty());
  CHECK(Tokenizer::from_memory(least, "t").encode("abc").empty());
  CHECK(refusal(replaced(small().json(), R"(["a","b"])", R"("a b")")).empty());
}

TEST_CASE("damaged files are refused with their reason") {
  const std::string good = small().json();
  for (const auto& [from, to, reason] :
       {std::tuple{R"("1.0")", R"("2.0")", "t: version is not \"1.0\": is this a tokenizer.json?"},
        {R"("merges":[["a","b"]])", R"("merges":{})", "t: model.merges: expected a list"},
        {R"("a":0)", R"("a":-1)", "t: model.vocab: id -1 is outside of 0 to 4194303"},
        {R"("a":0)", R"("a":"x")", "t: model.vocab: the id of \"a\" is not an integer"},
        {R"("a":0)", R"("a":1)", "t: model.vocab: id 1 is given to two tokens"},
        {R"("b":1)", R"("a":1)", "t: model.vocab: token \"a\" is given twice"},
        {R"("b":1)", R"("\udc00":1)", "t: not valid JSON: Problem while parsing a string"},
        {R"(["a","b"])", R"(["b","a"])", "t: model.merges[0]: \"ba\" is not in the vocabulary"},
        {R"(["a","b"])", R"(["a","z"])", "t: model.merges[0]: \"z\" is not in the vocabulary"},
        {R"(["a","b"])", R"(["a",""])", "t: model.merges[0]: a merge with an empty side"},
        {R"(["a","b"])", R"("a  b")",
         "t: model.merges: merge \"a  b\" is not two tokens with one space between (merge 0)"},
        {R"(["a","b"])", R"(["a"])",
         "t: model.merges: expected a string or a pair of strings (merge 0)"},
        {R"("added_tokens":[])", R"("added_tokens":[{"id":9}])",
         "t: added_tokens[0]: member content is missing"},
        {R"("normalizer":null)", R"("normalizer":[])",
         "t: normalizer: expected an object, found a list"},
        {R"("normalizer":null)", R"("normalizer":null,"decoder":null)",
         "t: member \"decoder\" is given twice"},
        {R"("post_processor":null)",
         R"("post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},)"
         R"({"SpecialToken":{"id":"X"}}],"special_tokens":{"X":{"ids":[77]}}})",
         "t: post_processor: no token has the id 77"}}) {
    CHECK(refusal(replaced(good, from, to)) == std::string("damaged: ") + reason);
  }
  CHECK(refusal("") == "damaged: t: not valid JSON: Empty: no JSON found");
  CHECK(refusal("[]") == "damaged: t: expected an object");
  for (std::size_t size = 1; size < good.size(); ++size) {
    CHECK(refusal(std::string_view(good).substr(0, size)).starts_with("damaged: t: not valid"));
  }
  const std::string deep(100'000, '[');
  CHECK(refusal(R"({"version":"1.0","model":)" + deep).starts_with("damaged: t: not valid JSON"));
}

TEST_CASE("values of a wrong type are refused with their place") {
  const std::string good = small().json();
  for (const auto& [from, to, reason] :
       {std::tuple{R"("vocab":{"a":0,"b":1,"ab":2})", R"("vocab":["a","b","ab"])",
                   "t: model.vocab: expected an object"},
        {R"("a":0)", R"("a":0.5)", "t: model.vocab: the id of \"a\" is not an integer"},
        {R"("a":0)", R"("a":null)", "t: model.vocab: the id of \"a\" is not an integer"},
        {R"("a":0)", R"("a":[0])", "t: model.vocab: the id of \"a\" is not an integer"},
        {R"([["a","b"]])", R"([7])",
         "t: model.merges: expected a string or a pair of strings (merge 0)"},
        {R"(["a","b"])", R"(["a",7])", "t: model.merges: expected a string (merge 0)"},
        {R"(["a","b"])", R"(["a","b","ab"])",
         "t: model.merges: expected a string or a pair of strings (merge 0)"},
        {R"(["a","b"])", R"(["ab","ab"])", "t: model.merges[0]: \"abab\" is not in the vocabulary"},
        {R"("added_tokens":[])", R"("added_tokens":{})", "t: added_tokens: expected a list"},
        {R"("added_tokens":[])", R"("added_tokens":[7])", "t: added_tokens[0]: expected an object"},
        {R"("added_tokens":[])", R"("added_tokens":[{"id":"9","content":"x"}])",
         "t: added_tokens[0]: id: expected an integer"},
        {R"("added_tokens":[])", R"("added_tokens":[{"id":9,"content":"x","single_word":0}])",
         "t: added_tokens[0]: single_word: expected true or false"},
        {R"("version":"1.0")", R"("version":1.0)",
         "t: version is not \"1.0\": is this a tokenizer.json?"},
        {R"("type":"BPE",)", R"("type":7,)", "t: model: type: expected a string, found an integer"},
        {R"("type":"BPE",)", R"("type":"BPE","byte_fallback":1,)",
         "t: model: byte_fallback: expected true or false, found an integer"},
        {R"("type":"BPE",)", R"("type":"BPE","unk_token":"<unk>",)",
         "t: model: unk_token <unk> is not in the vocabulary"},
        {R"("decoder":null)", R"("decoder":"ByteLevel")",
         "t: decoder: expected an object, found a string"}}) {
    CHECK(refusal(replaced(good, from, to)) == std::string("damaged: ") + reason);
  }
  CHECK(refusal("\"text\"") == "damaged: t: expected an object");
  CHECK(refusal(R"({"version":"1.0","model":[]})") == "damaged: t: model: expected an object");
  CHECK(refusal(R"({"version":"1.0"})") == "damaged: t: member \"model\" is missing");
}

TEST_CASE("components in components go as deep as files do, and no deeper") {
  const auto nested = [](int depth) {
    std::string json;
    for (int i = 0; i < depth; ++i) json += R"({"type":"Sequence","normalizers":[)";
    json += R"({"type":"NFC"})";
    for (int i = 0; i < depth; ++i) json += "]}";
    return replaced(small().json(), R"("normalizer":null)", R"("normalizer":)" + json);
  };
  CHECK(refusal(nested(25)).empty());
  CHECK(refusal(nested(100)).starts_with("damaged: t: not valid JSON: "));
  CHECK(refusal(nested(100'000)).starts_with("damaged: t: not valid JSON: "));
}

TEST_CASE("merges in any order and of a token with itself come to an end") {
  TestTokenizer t;
  t.vocabulary = {"a", "b", "ab", "aa", "aaaa", "aab", "aaab"};
  t.merges = {{"aa", "aa"}, {"a", "ab"}, {"aa", "ab"}, {"a", "b"}, {"a", "a"}, {"a", "aab"}};
  const Tokenizer tokenizer = t.load();
  CHECK(tokens_of(tokenizer, "aaaaaab") == Strings{"aaaa", "aab"});
  CHECK(tokenizer.encode(std::string(100'000, 'a')).size() == 25'000);
}

TEST_CASE("a file of two gigabytes is refused before it is read") {
  const TestFolder folder("tokenizer-file");
  const std::string path = folder.file("tokenizer.json");
  write_file_atomically(path, R"({"version":"1.0","model":{"type":")");
  std::filesystem::resize_file(path, std::size_t{1} << 31);
  try {
    Tokenizer::load(path);
    FAIL("it was loaded");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::damaged);
    CHECK(error.message() ==
          path + ": has 2147483648 bytes; more than 1073741824 are no tokenizer.json");
  }
}

TEST_CASE("components that are not supported are named") {
  const std::string good = small().json();
  for (const auto& [from, to, reason] :
       {std::tuple{R"("type":"BPE")", R"("type":"Unigram")",
                   "t: model: Unigram isn't a supported model (only BPE is)"},
        {R"("type":"BPE")", R"("type":"BPE","dropout":0.1)",
         "t: model: BPE with dropout isn't supported"},
        {R"("type":"BPE")", R"("type":"BPE","end_of_word_suffix":"</w>")",
         "t: model: BPE with end_of_word_suffix isn't supported"},
        {R"("type":"BPE")", R"("type":"BPE","new":1)",
         "t: model: BPE with member \"new\" isn't supported"},
        {R"("normalizer":null)", R"("normalizer":{"type":"Lowercase"})",
         "t: normalizer: Lowercase isn't a supported normalizer"},
        {R"("normalizer":null)",
         R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Nmt"}]})",
         "t: normalizer.normalizers[1]: Nmt isn't a supported normalizer"},
        {R"("pre_tokenizer":null)", R"("pre_tokenizer":{"type":"UnicodeScripts"})",
         "t: pre_tokenizer: UnicodeScripts isn't a supported pre-tokenizer"},
        {R"("pre_tokenizer":null)",
         R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"})",
         "t: pre_tokenizer: the pattern can't be compiled (missing closing parenthesis): ("},
        {R"("pre_tokenizer":null)",
         R"("pre_tokenizer":{"type":"Split","pattern":{"String":"x"},"behavior":"Odd"})",
         "t: pre_tokenizer: Split with behavior \"Odd\" isn't supported"},
        {R"("post_processor":null)", R"("post_processor":{"type":"Odd"})",
         "t: post_processor: Odd isn't a supported post-processor"},
        {R"("decoder":null)", R"("decoder":{"type":"CTC"})",
         "t: decoder: CTC isn't a supported decoder"}}) {
    CHECK(refusal(replaced(good, from, to)) == std::string("usage: ") + reason);
  }
}

TEST_CASE("numbers and texts of absurd size are refused or carried, never a crash") {
  const std::string good = small().json();
  CHECK(refusal(replaced(good, R"("b":1)", R"("b":1e300)")).starts_with("damaged"));
  CHECK(refusal(replaced(good, R"("b":1)", R"("b":99999999999999999999)")).starts_with("damaged"));
  CHECK(refusal(replaced(good, R"("b":1)", R"("b":4294967297)")).starts_with("damaged"));
  const std::string large(3'000'000, 'x');
  const std::string text = replaced(good, R"("ab":2)", R"("ab":2,")" + large + R"(":3)");
  const Tokenizer tokenizer = Tokenizer::from_memory(text, "t");
  CHECK(tokenizer.content_of(3) == large);
  CHECK(tokens_of(tokenizer, "ab") == Strings{"ab"});
}

}  // namespace zaya
