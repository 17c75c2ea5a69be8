// SPDX-License-Identifier: Apache-2.0
#include "data/document.h"

#include <doctest/doctest.h>

#include "base/json.h"
#include "data/testing.h"

namespace zaya {

namespace {

const std::string kFixtures = std::string(ZAYA_TEST_DATA) + "/jsonl/";

std::vector<std::string> read_all(const std::string& path, const ReadOptions& options = {},
                                  ReadReport* report = nullptr) {
  DocumentReader reader(find_inputs({path}), options);
  std::vector<std::string> texts;
  Document document;
  while (reader.next(document)) texts.push_back(document.text);
  if (report != nullptr) *report = reader.report();
  return texts;
}

ReadOptions skipping() {
  ReadOptions options;
  options.skips_bad = true;
  return options;
}

ReadOptions replacing() {
  ReadOptions options;
  options.replaces_invalid_utf8 = true;
  return options;
}

ReadOptions splitting(Index blank_lines) {
  ReadOptions options;
  options.split_blank_lines = blank_lines;
  return options;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("jsonl files give the expected documents, compressed or not") {
  const Json expected = Json::parse(read_file(kFixtures + "expected.json"), "expected.json");
  Texts texts;
  for (const Json& text : expected.at("documents").items()) texts.push_back(text.as_string());
  for (const Json& name : expected.at("accept").items()) {
    CAPTURE(name.as_string());
    CHECK(read_all(kFixtures + name.as_string()) == texts);
  }
}

TEST_CASE("bad jsonl files are refused with file and line") {
  const Json expected = Json::parse(read_file(kFixtures + "expected.json"), "expected.json");
  for (const auto& [name, reason] : expected.at("reject").members()) {
    CAPTURE(name);
    const std::string path = kFixtures + name;
    const std::string message = failure_of([&] { read_all(path); });
    const Json& line = reason.at("line");
    const std::string place =
        line.is_null() ? path + ": " : path + ":" + std::to_string(line.as_integer()) + ": ";
    CHECK(message.starts_with("3 " + place));
  }
}

TEST_CASE("bad documents are counted and their first three places kept when asked for") {
  const TestFolder folder;
  const std::string path = folder.write(
      "a.jsonl", "{\"text\": 1}\n{\"text\": \"good\"}\n{}\n[]\n{\"text\": \"\xff\"}\nnull\n");
  ReadReport report;
  CHECK(read_all(path, skipping(), &report) == Texts{"good"});
  CHECK(report.num_bad == 5);
  REQUIRE(report.first_bad.size() == 3);
  CHECK(report.first_bad[0] == path + ":1: member \"text\" is not a string");
  CHECK(report.first_bad[1].starts_with(path + ":3: the object has no member \"text\""));
  CHECK(report.first_bad[2] == path + ":4: not a JSON object");
}

TEST_CASE("a damaged line in the middle does not end the reading of later files") {
  const TestFolder folder;
  folder.write("a.jsonl", "{\"text\": \"1\"}\n{bad\n{\"text\": \"2\"}\n");
  folder.write("b.jsonl", "{\"text\": \"3\"}\n");
  ReadReport report;
  CHECK(read_all(folder / "", skipping(), &report) == Texts{"1", "2", "3"});
  CHECK(report.num_bad == 1);
}

TEST_CASE("a cut stream keeps the documents before the cut and counts as bad when skipping") {
  ReadReport report;
  const Texts texts = read_all(kFixtures + "bad_truncated.jsonl.gz", skipping(), &report);
  CHECK(report.num_bad == 1);
  REQUIRE(report.first_bad.size() == 1);
  CHECK(report.first_bad[0].find("cut off") != std::string::npos);
  CHECK(texts.size() < 6);
}

TEST_CASE("every cut of a compressed file is noticed") {
  const TestFolder folder;
  for (const std::string name :
       {"ok.jsonl.gz", "ok.jsonl.zst", "ok_two_members.jsonl.gz", "ok_two_frames.jsonl.zst"}) {
    const std::string whole = read_file(kFixtures + name);
    const Texts all = read_all(kFixtures + name);
    for (std::size_t size = 4; size < whole.size(); ++size) {
      CAPTURE(name);
      CAPTURE(size);
      const std::string path = folder.write(name, whole.substr(0, size));
      std::size_t num_documents = 0;
      const std::string message = failure_of([&] { num_documents = read_all(path).size(); });
      // A cut between members or frames leaves a whole file with fewer documents.
      const bool is_between = message == "no error" && num_documents < all.size() &&
                              name.find("two") != std::string::npos;
      CHECK((is_between || message.starts_with("3 ")));
    }
  }
}

TEST_CASE("a flipped bit in a gzip file is noticed") {
  const TestFolder folder;
  std::string bytes = read_file(kFixtures + "ok.jsonl.gz");
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 1);  // its checksum
  const std::string path = folder.write("a.jsonl.gz", bytes);
  CHECK(failure_of([&] { read_all(path); }).find("gzip stream is damaged") != std::string::npos);
}

TEST_CASE("bytes behind a gzip stream are refused, zero padding is not") {
  const TestFolder folder;
  const std::string bytes = read_file(kFixtures + "ok.jsonl.gz");
  CHECK(read_all(folder.write("a.jsonl", bytes + std::string(512, '\0'))).size() == 6);
  const std::string path = folder.write("b.jsonl", bytes + "x");
  CHECK(failure_of([&] { read_all(path); }).find("not gzip follow") != std::string::npos);
}

TEST_CASE("skippable zstd frames are passed over wherever they stand") {
  const TestFolder folder;
  const std::string frame(
      "\x5a\x2a\x4d\x18\x03\x00\x00\x00"
      "abc",
      11);
  const std::string bytes = read_file(kFixtures + "ok.jsonl.zst");
  const std::string text = read_all(folder.write("once.txt", bytes)).at(0);
  CHECK(read_all(folder.write("a.txt", frame + bytes + frame + bytes + frame)) ==
        Texts{text + text});
}

TEST_CASE("a zstd window above 128 MiB is refused with the way out, below is read") {
  const TestFolder folder;
  // Frame header without content size: descriptor 0, window descriptor, then an empty last block.
  const auto frame = [](int window_log) {
    std::string bytes("\x28\xb5\x2f\xfd\x00", 5);
    bytes += static_cast<char>((window_log - 10) << 3);
    return bytes + std::string("\x01\x00\x00", 3);
  };
  CHECK(read_all(folder.write("a.txt", frame(27))) == Texts{""});
  const std::string path = folder.write("b.txt", frame(31));
  const std::string message = failure_of([&] { read_all(path); });
  CHECK(message.starts_with("3 "));
  CHECK(message.find("--long=27") != std::string::npos);
}

TEST_CASE("a lone surrogate is an error, or U+FFFD when replacing") {
  const TestFolder folder;
  const std::string path =
      folder.write("a.jsonl", R"({"text": "a\ud800b\udc00c\uD83D\uDE42d\\ud800e", "x": "\ud800"})"
                              "\n");
  CHECK(failure_of([&] { read_all(path); }).find("lone surrogate") != std::string::npos);
  ReadReport report;
  CHECK(read_all(path, replacing(), &report) == Texts{"a\xef\xbf\xbd"
                                                      "b\xef\xbf\xbd"
                                                      "c\xf0\x9f\x99\x82"
                                                      "d\\ud800e"});
  CHECK(report.num_repaired == 1);
}

TEST_CASE("invalid UTF-8 is an error with its line, or replaced and counted") {
  const TestFolder folder;
  const std::string text = folder.write("a.txt",
                                        "one\ntwo\nthr\xc3\x28"
                                        "ee\nfour\n");
  CHECK(failure_of([&] { read_all(text); }).starts_with("3 " + text + ":3: invalid UTF-8"));
  ReadReport report;
  CHECK(read_all(text, replacing(), &report) == Texts{"one\ntwo\nthr\xef\xbf\xbd(ee\nfour\n"});
  CHECK(report.num_repaired == 1);
  CHECK(read_all(kFixtures + "bad_utf8.jsonl", replacing()) == Texts{"a\xef\xbf\xbd"});
}

TEST_CASE("the member that holds the text can be named, must be one string, may stand anywhere") {
  const TestFolder folder;
  ReadOptions options;
  options.text_key = "b\xc3\xa4";
  CHECK(read_all(folder.write("a.jsonl", "{\"text\": 1, \"b\\u00e4\": \"x\"}\n"), options) ==
        Texts{"x"});
  const std::string twice = folder.write("b.jsonl", R"({"text": "x", "text": "y"})");
  CHECK(failure_of([&] { read_all(twice); }).find("given twice") != std::string::npos);
}

TEST_CASE("numbers beyond 64 bits in other members do no harm") {
  const TestFolder folder;
  const std::string path =
      folder.write("a.jsonl", R"({"id": 123456789012345678901234567890, "text": "x"})");
  CHECK(read_all(path) == Texts{"x"});
}

TEST_CASE("strict JSON only") {
  const TestFolder folder;
  for (const std::string line :
       {"{\"text\": \"a\"} x", "{'text': 'a'}", "{\"text\": \"a\",}", "{\"text\": \"a\tb\"}",
        "{\"text\": \"a\" // no\n}", "{\"text\": \"a", "{\"text\": \"a\", \"n\": 01}",
        "{\"text\": \"\\x\"}"}) {
    CAPTURE(line);
    const std::string path = folder.write("a.jsonl", line);
    CHECK(failure_of([&] { read_all(path); }).starts_with("3 " + path + ":1: "));
  }
}

TEST_CASE("a line of 24 MB is one document") {
  const TestFolder folder;
  const std::string text(24 << 20, 'x');
  const std::string path =
      folder.write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" + text + "\"}\n{\"text\": \"b\"}");
  const Texts texts = read_all(path);
  REQUIRE(texts.size() == 3);
  CHECK(texts[1] == text);
  CHECK(texts[2] == "b");
}

TEST_CASE("a plain text file is one document, byte for byte but for its byte order mark") {
  const TestFolder folder;
  CHECK(read_all(folder.write("a.txt",
                              "\xef\xbb\xbf"
                              "a\r\n\xef\xbb\xbf\n\n b")) == Texts{"a\r\n\xef\xbb\xbf\n\n b"});
  CHECK(read_all(folder.write("b.txt", "")) == Texts{""});
  CHECK(read_all(folder.write("c.txt", std::string("a\0b", 3))) == Texts{std::string("a\0b", 3)});
}

TEST_CASE("plain text is split at runs of enough blank lines") {
  const TestFolder folder;
  const std::string path =
      folder.write("a.txt", "\n\na\n\nb\nc\n \t\n\n\nd\r\n\r\n\r\n\r\ne\n\n\n\n");
  CHECK(read_all(path, splitting(1)) == Texts{"a", "b\nc", "d", "e"});
  CHECK(read_all(path, splitting(2)) == Texts{"a\n\nb\nc", "d", "e"});
  CHECK(read_all(path, splitting(4)) == Texts{"a\n\nb\nc\n \t\n\n\nd\r\n\r\n\r\n\r\ne"});
  CHECK(read_all(folder.write("b.txt", "\n \n"), splitting(1)).empty());
}

TEST_CASE("an invalid part of a split text is named by its line and skipped alone") {
  const TestFolder folder;
  const std::string path = folder.write("a.txt", "a\n\nb\n\xff\n\nc\n");
  CHECK(failure_of([&] { read_all(path, splitting(1)); }).starts_with("3 " + path + ":4: "));
  ReadOptions options = splitting(1);
  options.skips_bad = true;
  CHECK(read_all(path, options) == Texts{"a", "c"});
}

TEST_CASE("a folder is walked in byte order of path without hidden files") {
  const TestFolder folder;
  folder.write("a/b.txt", "3");
  folder.write("a-c.txt", "1");
  folder.write("a.txt", "2");
  folder.write(".hidden/x.txt", "no");
  folder.write("a/.x.txt", "no");
  folder.write("Z.txt", "0");
  CHECK(read_all(folder / "") == Texts{"0", "1", "2", "3"});
}

TEST_CASE("paths that are not there and folders without files are wrong use") {
  const TestFolder folder;
  make_directories(folder / "empty");
  CHECK(failure_of([&] { find_inputs({folder / "no"}); }).starts_with("2 "));
  CHECK(failure_of([&] { find_inputs({folder / "empty"}); }).starts_with("2 "));
}

TEST_CASE("files that hold no plain text are refused with what to do") {
  const TestFolder folder;
  const std::string parquet = folder.write("x.parquet", "PAR1....");
  const std::string message = failure_of([&] { read_all(parquet); });
  CHECK(message.starts_with("2 "));
  CHECK(message.find("duckdb -c \"COPY (SELECT text FROM '" + parquet + "')") != std::string::npos);
  for (const std::string head : {"PK\x03\x04",
                                 "\xfd"
                                 "7zXZ",
                                 "BZh91AY&SY", "\x93NUMPY", "%PDF-1"}) {
    const std::string path = folder.write("x.txt", head + std::string(20, '\0'));
    CHECK(failure_of([&] { read_all(path); }).starts_with("2 " + path + ": is a"));
  }
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  CHECK(failure_of([&] { read_all(folder.write("x", tar)); }).find("tar") != std::string::npos);
  const std::string binary = folder.write("x.dat", std::string("a\0b", 3));
  CHECK(failure_of([&] { read_all(binary); }).find("known are text, JSONL") != std::string::npos);
}

TEST_CASE("reading again from a later file gives the same rest and the same counts") {
  const TestFolder folder;
  folder.write("a.jsonl", "{}\n{\"text\": \"1\"}\n");
  folder.write("b.jsonl", "{\"text\": \"2\"}\n{}\n{\"text\": \"3\"}\n");
  const std::vector<InputFile> files = find_inputs({folder / ""});
  DocumentReader reader(files, skipping());
  Document document;
  while (reader.next(document) && document.text != "2") {
  }
  const ReadReport before = reader.report_before_file();
  CHECK(before.num_bad == 1);
  while (reader.next(document)) {
  }
  DocumentReader again(files, skipping(), 1, before);
  Texts texts;
  while (again.next(document)) texts.push_back(document.text);
  CHECK(texts == Texts{"2", "3"});
  CHECK(again.report() == reader.report());
  CHECK(again.consumed() == reader.consumed());
}

}  // namespace zaya
