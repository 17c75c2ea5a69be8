// SPDX-License-Identifier: Apache-2.0
#include "data/merge.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/fault_point.h"
#include "base/stop.h"
#include "data/testing.h"

namespace zaya {

namespace {

const std::string kFixtures = std::string(ZAYA_TEST_DATA) + "/megatron-idx/";

MergeResult merge(const std::vector<std::string>& prefixes, const std::string& output,
                  bool overwrites, Index section_bytes = Index{1} << 30) {
  MergeOptions options;
  options.prefixes = prefixes;
  options.output = output;
  options.overwrites = overwrites;
  options.section_bytes = section_bytes;
  return merge_shards(options);
}

// All sequences in order.
std::vector<std::vector<std::int64_t>> tokens_of(const Shard& shard) {
  std::vector<std::vector<std::int64_t>> sequences;
  for (Index s = 0; s < shard.index().num_sequences(); ++s) {
    sequences.emplace_back(static_cast<std::size_t>(shard.index().length(s)));
    shard.read(s, 0, shard.index().length(s), sequences.back().data());
  }
  return sequences;
}

// Three inputs of 30, 0 and 21 tokens of four bytes.
std::vector<std::string> write_inputs(const TestFolder& folder) {
  return {write_shard(folder / "a", counting_documents({10, 0, 20})),
          write_shard(folder / "empty", {}),
          write_shard(folder / "b", counting_documents({5, 16}, 100))};
}

// Joins in a process of its own with an armed fault point; its exit status.
int merge_with_fault(const std::vector<std::string>& prefixes, const std::string& output,
                     const std::string& fault, Index section_bytes) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int code = 0;
    try {
      arm_fault_point(fault);
      merge(prefixes, output, false, section_bytes);
    } catch (const Error& error) {
      code = exit_code(error.kind());
    }
    _exit(code);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string bytes_of(const std::string& prefix) {
  return read_file(prefix + ".bin") + read_file(prefix + ".idx") + read_file(prefix + ".json");
}

}  // namespace

TEST_CASE("joining gives the expected bytes, and keeps modes and reordered positions") {
  const TestFolder folder;
  merge({kFixtures + "merge_a", kFixtures + "merge_b"}, folder / "ab", false);
  CHECK(read_file(folder / "ab.bin") == read_file(kFixtures + "merge_ab.bin"));
  CHECK(read_file(folder / "ab.idx") == read_file(kFixtures + "merge_ab.idx"));
  CHECK(list_directory(folder / "").size() == 2);

  merge({kFixtures + "i32_modes", kFixtures + "i32_modes"}, folder / "modes", false);
  const Shard modes(folder / "modes");
  REQUIRE(modes.index().has_modes());
  CHECK(modes.index().mode(1) == 1);
  CHECK(modes.index().mode(4) == 1);

  const std::string reordered = kFixtures + "i32_pointers_reordered";
  merge({reordered, reordered}, folder / "twice", false);
  const auto once = tokens_of(Shard(reordered));
  auto twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  CHECK(tokens_of(Shard(folder / "twice")) == twice);
}

TEST_CASE("joining what does not fit together is refused and leaves nothing behind") {
  const TestFolder folder;
  const std::string other = kFixtures + "i32_sentences";
  CHECK(failure_of([&] {
          merge({kFixtures + "merge_a", other}, folder / "x", false);
        }).find("token type") != std::string::npos);
  CHECK(failure_of([&] {
          merge({other, kFixtures + "i32_modes"}, folder / "x", false);
        }).find("modes") != std::string::npos);
  const std::string a = write_shard(folder / "a", {{1}}, "one");
  const std::string b = write_shard(folder / "b", {{1}}, "two");
  CHECK(failure_of([&] {
          merge({a, b}, folder / "x", false);
        }).find("the tokenizer") != std::string::npos);
  CHECK(failure_of([&] { merge({a, b}, a, true); }).starts_with("2 "));
  CHECK(failure_of([&] { merge({a}, b, false); }).find("--overwrite") != std::string::npos);
  CHECK(list_directory(folder / "").size() == 6);
}

TEST_CASE("joined side files add up") {
  const TestFolder folder;
  const std::string a = write_shard(folder / "a", {{1, 2}, {}});
  const std::string b = write_shard(folder / "b", {{7}});
  merge({a, b}, folder / "ab", false);
  const Shard joined(folder / "ab");
  verify_shard(joined);
  REQUIRE(joined.info());
  CHECK(joined.info()->documents == 3);
  CHECK(joined.info()->tokens == 3);
  CHECK(joined.info()->largest_id == 7);
  merge({a}, folder / "ab", true);
  CHECK(Shard(folder / "ab").info()->documents == 2);
}

TEST_CASE("killed at any point, joining goes on to the same bytes and keeps what was finished") {
  const TestFolder folder;
  const std::vector<std::string> inputs = write_inputs(folder);
  merge(inputs, folder / "whole", false);
  const std::string expected = bytes_of(folder / "whole");
  // Sections of 48 bytes: three of the first input, two of the last.
  constexpr Index kSectionBytes = 48;
  struct Kill {
    const char* fault;
    Index least_kept;
  };
  for (const auto& [fault, least_kept] : std::vector<Kill>{
           {"merge.block=kill@1", 0},
           {"merge.section=kill@1", 48},
           {"merge.section=kill@4", 168},
           {"journal.write=kill@3", 96},
           {"merge.written=kill", 204},
           {"index.write=kill", 204},
           {"side.write=kill", 204},
           {"publish.rename=kill@1", 0},
           {"publish.rename=kill@2", 0},
           {"publish.rename=kill@3", 0},
           {"merge.published=kill", 0},
       }) {
    CAPTURE(fault);
    const std::string output = folder / "out/joined";
    CHECK(merge_with_fault(inputs, output, fault, kSectionBytes) == 137);
    const MergeResult result = merge(inputs, output, false, kSectionBytes);
    CHECK(result.kept_bytes >= least_kept);
    CHECK(bytes_of(output) == expected);
    // Nothing but the three files stays.
    CHECK(list_directory(folder / "out").size() == 3);
    remove_all(folder / "out");
  }
}

TEST_CASE("a stop signal ends joining after what is finished was saved") {
  const TestFolder folder;
  const std::vector<std::string> inputs = write_inputs(folder);
  set_stop_signal(SIGTERM);
  const MergeResult stopped = merge(inputs, folder / "ab", false);
  set_stop_signal(0);
  CHECK(stopped.stop_signal == SIGTERM);
  CHECK(!is_file(folder / "ab.idx"));
  CHECK(merge(inputs, folder / "ab", false).stop_signal == 0);
  verify_shard(Shard(folder / "ab"));
}

TEST_CASE("an unfinished joining of other inputs, or with lost bytes, is begun anew") {
  const TestFolder folder;
  const std::vector<std::string> inputs = write_inputs(folder);
  CHECK(merge_with_fault(inputs, folder / "x", "merge.section=kill@4", 48) == 137);
  CHECK(merge({inputs[2]}, folder / "x", false, 48).kept_bytes == 0);
  CHECK(tokens_of(Shard(folder / "x")) == tokens_of(Shard(inputs[2])));

  CHECK(merge_with_fault(inputs, folder / "y", "merge.section=kill@4", 48) == 137);
  truncate_file(folder / "y.bin.partial", 50);
  CHECK(merge(inputs, folder / "y", false, 48).kept_bytes == 0);
  verify_shard(Shard(folder / "y"));

  CHECK(merge_with_fault(inputs, folder / "z", "merge.section=kill@4", 48) == 137);
  folder.write("z.merge.journal", "{broken");
  CHECK(merge(inputs, folder / "z", false, 48).kept_bytes == 0);
  CHECK(bytes_of(folder / "z") == bytes_of(folder / "y"));
}

TEST_CASE("bytes that changed on the device or in an input are found before anything has a name") {
  const TestFolder folder;
  const std::vector<std::string> inputs = write_inputs(folder);
  CHECK(merge_with_fault(inputs, folder / "x", "merge.section=kill@4", 48) == 137);
  std::string partial = read_file(folder / "x.bin.partial");
  partial[3] = '\1';
  folder.write("x.bin.partial", partial);
  CHECK(failure_of([&] { merge(inputs, folder / "x", false, 48); }).starts_with("6 "));
  CHECK(!is_file(folder / "x.bin"));
  // The next attempt trusts nothing of it.
  CHECK(merge(inputs, folder / "x", false, 48).kept_bytes == 0);

  std::string tokens = read_file(folder / "a.bin");
  tokens[0] = '\2';
  folder.write("a.bin", tokens);
  CHECK(failure_of([&] { merge(inputs, folder / "y", false); }).starts_with("3 " + folder / "a"));
  CHECK(!is_file(folder / "y.bin"));
}

}  // namespace zaya
