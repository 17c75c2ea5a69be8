// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "text/testing.h"

namespace zaya {

namespace {

std::string added(std::string_view content, TokenId id, std::string_view flags = "",
                  bool is_special = true, bool is_normalized = false) {
  const auto flag = [&](std::string_view name) {
    return flags.find(name) == flags.npos ? "false" : "true";
  };
  return R"({"id":)" + std::to_string(id) + R"(,"content":)" + json_quote(content) +
         R"(,"single_word":)" + flag("single_word") + R"(,"lstrip":)" + flag("lstrip") +
         R"(,"rstrip":)" + flag("rstrip") + R"(,"normalized":)" +
         (is_normalized ? "true" : "false") + R"(,"special":)" + (is_special ? "true" : "false") +
         "}";
}

// Letters and spaces are tokens; `added_tokens` follow from id 30 on.
TestTokenizer letters(const std::string& added_tokens) {
  TestTokenizer t;
  for (char c = 'a'; c <= 'z'; ++c) t.vocabulary.emplace_back(1, c);
  for (const char* text : {" ", "\n", "\xC3\xA9", "\xE2\x96\x81"}) t.vocabulary.emplace_back(text);
  t.added_tokens = "[" + added_tokens + "]";
  return t;
}

Strings split_by(const std::string& pre_tokenizer, std::string_view text) {
  TestTokenizer t = byte_tokenizer();
  t.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[)" + pre_tokenizer +
                    R"(,{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})";
  const Tokenizer tokenizer = t.load();
  const PreTokenizer pre(Json::parse(t.pre_tokenizer, "t"), "t");
  PreTokenizeScratch scratch;
  RegexScratch regex;
  const PreTokenizer::Result result = pre.apply(text, true, scratch, regex);
  Strings parts;
  for (const Part part : result.parts) {
    parts.emplace_back(result.text.substr(part.begin, part.end - part.begin));
  }
  return parts;
}

Strings split(std::string_view behavior, std::string_view text, bool is_inverted = false) {
  return split_by(R"({"type":"Split","pattern":{"String":"-"},"behavior":")" +
                      std::string(behavior) + R"(","invert":)" + (is_inverted ? "true" : "false") +
                      "}",
                  text);
}

}  // namespace

TEST_CASE("added tokens are cut out leftmost first and longest first") {
  const Tokenizer t =
      letters(added("<x>", 30) + "," + added("<x><y>", 31) + "," + added("y>z", 32, "", false))
          .load();
  CHECK(tokens_of(t, "a<x><y>zb") == Strings{"a", "<x><y>", "z", "b"});
  CHECK(tokens_of(t, "<x>y>z") == Strings{"<x>", "y>z"});
  // Special ones stay text on request; nothing inside them is looked for.
  CHECK(tokens_of(t, "a<x>y>zb", {.no_special_in_text = true}) == Strings{"a", "x", "y>z", "b"});
}

TEST_CASE("the flags of added tokens have the library's meaning") {
  const Tokenizer words = letters(added("the", 30, "single_word")).load();
  CHECK(tokens_of(words, "the other the") ==
        Strings{"the", " ", "o", "t", "h", "e", "r", " ", "the"});
  const Tokenizer left =
      letters(added("<x>", 30, "lstrip") + "," + added("<y>", 31, "rstrip")).load();
  CHECK(tokens_of(left, "a  <x> b") == Strings{"a", "<x>", " ", "b"});
  CHECK(tokens_of(left, "a <y> \n b") == Strings{"a", " ", "<y>", "b"});
  // What one took the other can't take.
  CHECK(tokens_of(left, "<y>  <x>") == Strings{"<y>", "<x>"});
}

TEST_CASE("normalized added tokens are looked for behind the normalizer") {
  TestTokenizer t = letters(added("a b", 30, "", false, true) + "," + added("c d", 31));
  t.normalizer = R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})";
  CHECK(tokens_of(t.load(), "a b c dz") == Strings{"a b", "\xE2\x96\x81", "c d", "z"});
  CHECK(tokens_of(t.load(),
                  "a\xE2\x96\x81"
                  "b") == Strings{"a b"});
}

TEST_CASE("all behaviours of Split, and invert") {
  CHECK(split("Isolated", "-a--b") == Strings{"-", "a", "-", "-", "b"});
  CHECK(split("Removed", "-a--b") == Strings{"a", "b"});
  CHECK(split("MergedWithPrevious", "-a--b-") == Strings{"-", "a-", "-", "b-"});
  CHECK(split("MergedWithNext", "-a--b-") == Strings{"-a", "-", "-b", "-"});
  CHECK(split("Contiguous", "-a--b") == Strings{"-", "a", "--", "b"});
  CHECK(split("Removed", "-a--b", true) == Strings{"-", "-", "-"});
  CHECK(split("MergedWithPrevious", "a-b", true) == Strings{"a", "-b"});
  CHECK(split("Isolated", "").empty());
}

TEST_CASE("the pre-tokenizers with a name cut as the library does") {
  CHECK(split_by(R"({"type":"Digits","individual_digits":true})", "a12b") ==
        Strings{"a", "1", "2", "b"});
  CHECK(split_by(R"({"type":"Digits","individual_digits":false})", "a12b") ==
        Strings{"a", "12", "b"});
  CHECK(split_by(R"({"type":"Punctuation"})", "Hey, you!!") ==
        Strings{"Hey", ",", " you", "!", "!"});
  CHECK(split_by(R"({"type":"Whitespace"})", "Hey, you e\xCC\x81") ==
        Strings{"Hey", ",", "you", "e\xCC\x81"});
  CHECK(split_by(R"({"type":"WhitespaceSplit"})", " Hey, you") == Strings{"Hey,", "you"});
  CHECK(split_by(R"({"type":"BertPreTokenizer"})", "Hey, you") == Strings{"Hey", ",", "you"});
  CHECK(split_by(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"always"})", "a b") ==
        Strings{"_a", "_b"});
  CHECK(split_by(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"never"})", "a b") ==
        Strings{"a", "_b"});
}

TEST_CASE("a template, or add_bos_token, puts ids around a text") {
  TestTokenizer t = letters(added("<s>", 30) + "," + added("</s>", 31));
  const std::string config = R"({"bos_token":{"content":"<s>"},"add_bos_token":true})";
  const Tokenizer plain = Tokenizer::from_memory(t.json(), "t");
  CHECK(plain.around_rule() == Tokenizer::AroundRule::none);
  CHECK(tokens_of(plain, "a", {.add_special = true}) == Strings{"a"});
  const Tokenizer by_config = Tokenizer::from_memory(t.json(), "t", config);
  CHECK(by_config.around_rule() == Tokenizer::AroundRule::add_bos_token);
  CHECK(tokens_of(by_config, "a", {.add_special = true}) == Strings{"<s>", "a"});
  t.post_processor = R"({"type":"Sequence","processors":[{"type":"ByteLevel"},
    {"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"B"}},{"Sequence":{"id":"A"}},
     {"SpecialToken":{"id":"E"}}],"pair":[],
     "special_tokens":{"B":{"ids":[30]},"E":{"ids":[31]}}}]})";
  const Tokenizer by_template = Tokenizer::from_memory(t.json(), "t", config);
  CHECK(by_template.around_rule() == Tokenizer::AroundRule::from_template);
  CHECK(tokens_of(by_template, "a", {.add_special = true}) == Strings{"<s>", "a", "</s>"});
  CHECK(tokens_of(by_template, "", {.add_special = true}) == Strings{"<s>", "</s>"});
  CHECK(by_template.decode(by_template.encode("a", {.add_special = true}),
                           {.skip_special = true}) == "a");
}

TEST_CASE("the ends of text come from the config, else from well-known names") {
  const TestTokenizer t = letters(added("<|endoftext|>", 30) + "," + added("<pad>", 31));
  const Tokenizer by_name = Tokenizer::from_memory(t.json(), "t");
  CHECK(by_name.eos() == 30);
  CHECK(by_name.pad() == 31);
  CHECK_FALSE(by_name.bos().has_value());
  CHECK(by_name.vocabulary_size() == 32);
  CHECK(by_name.special_tokens() == Strings{"<|endoftext|>", "<pad>"});
  const Tokenizer by_config = Tokenizer::from_memory(
      t.json(), "t", R"({"eos_token":"<pad>","chat_template":"T","pad_token":null})");
  CHECK(by_config.eos() == 31);
  CHECK_FALSE(by_config.pad().has_value());
  CHECK(by_config.chat_template() == "T");
  CHECK_THROWS_AS(Tokenizer::from_memory(t.json(), "t", R"({"eos_token":7})"), Error);
}

TEST_CASE("a folder is read with its config, and the digest is that of the file") {
  const std::string folder = "/tmp/zaya-tokenizer-test";
  remove_all(folder);
  make_directories(folder);
  const std::string json = letters(added("<e>", 30)).json();
  write_file_atomically(join_path(folder, "tokenizer.json"), json);
  write_file_atomically(join_path(folder, "tokenizer_config.json"), R"({"eos_token":"<e>"})");
  const Tokenizer tokenizer = Tokenizer::load(folder);
  CHECK(tokenizer.eos() == 30);
  CHECK(tokenizer.digest() == hash128(json));
  CHECK(Tokenizer::load(join_path(folder, "tokenizer.json")).eos() == 30);
  remove_all(folder);
  CHECK_THROWS_AS(Tokenizer::load(folder), Error);
}

TEST_CASE("an unknown id is an error unless told to be lenient") {
  const Tokenizer t = letters("").load();
  const std::vector<TokenId> ids{0, 99, 1};
  CHECK_THROWS_WITH(t.decode(ids), "t: no token has the id 99 (the largest is 29)");
  CHECK(t.decode(ids, {.is_lenient = true}) == "a b");
  CHECK_THROWS_AS(t.decode(std::vector<TokenId>{-1}), Error);
}

TEST_CASE("byte fallback decodes a run as a whole or not at all") {
  TestTokenizer t;
  t.vocabulary = {"<0xC3>", "<0xA9>", "a", "<0x41>", "\xE2\x96\x81"};
  t.decoder = R"({"type":"Sequence","decoders":[
    {"type":"Replace","pattern":{"String":"\u2581"},"content":" "},
    {"type":"ByteFallback"},{"type":"Fuse"},
    {"type":"Strip","content":" ","start":1,"stop":0}]})";
  const Tokenizer tokenizer = t.load();
  const std::string r = "\xEF\xBF\xBD";
  const auto text = [&](std::vector<TokenId> ids) { return tokenizer.decode(ids); };
  CHECK(text({2, 0, 1, 2}) ==
        "a\xC3\xA9"
        "a");
  CHECK(text({0, 3, 2}) == r + r + "a");
  CHECK(text({4, 4, 2}) == " a");
}

TEST_CASE("streaming gives whole characters as soon as they are there") {
  const Tokenizer bytes = byte_tokenizer().load();
  StreamDecoder decoder(bytes);
  const std::string smile = "\xF0\x9F\x98\x80";
  std::string seen;
  for (int i = 0; i < 4; ++i) {
    seen = decoder.push(bytes.encode(smile)[i]);
    CHECK(seen.empty() == (i < 3));
  }
  CHECK(seen == smile);
  CHECK(decoder.push('a') == "a");
  CHECK(decoder.push(0xE2).empty());
  CHECK(decoder.finish() == "\xEF\xBF\xBD");
  CHECK(decoder.finish().empty());
  // What never becomes text does not pile up.
  std::string lost;
  for (int i = 0; i < 200; ++i) lost += decoder.push(0xFF);
  CHECK(lost.size() >= 3 * 128);
}

TEST_CASE("streaming keeps the spaces that only the start of a text loses") {
  TestTokenizer t;
  t.vocabulary = {"_a", "_b"};
  t.decoder = R"({"type":"Metaspace","replacement":"_","prepend_scheme":"always"})";
  const Tokenizer tokenizer = t.load();
  StreamDecoder decoder(tokenizer);
  CHECK(decoder.push(0) == "a");
  CHECK(decoder.push(1) == " b");
  CHECK(decoder.push(1) == " b");
  CHECK(tokenizer.decode(std::vector<TokenId>{0, 1, 1}) == "a b b");
}

TEST_CASE("text that is not UTF-8 is read with replacement characters") {
  const Tokenizer bytes = byte_tokenizer().load();
  CHECK(bytes.decode(bytes.encode("a\xFF"
                                  "b\xE2\x82")) ==
        "a\xEF\xBF\xBD"
        "b\xEF\xBF\xBD");
}

}  // namespace zaya
