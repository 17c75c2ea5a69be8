// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "checkpoint/publish.h"
#include "checkpoint/testing.h"

namespace zaya {

namespace {

// Publishes a state as `folder`/step-N and returns that path.
std::string publish(const std::string& folder, Index step, const TestState& state) {
  const std::vector<NamedTensor> tensors = state.tensors();
  const Json run_state = state.run_state();
  return publish_checkpoint({folder, step, tensors, &run_state, nullptr}).path;
}

// What opening and verifying complains about, or "".
std::string complaint(const std::string& step_folder) {
  return error_of(ErrorKind::damaged, [&] { CheckpointReader(step_folder).verify(); });
}

// A checkpoint of three writers by hand: table f32 [7, 2] holding 0..13 in slices of 3, 0 and 4
// rows, and a whole tensor that only the last writer has.
std::string write_sliced(const std::string& folder) {
  const std::string path = join_path(folder, step_name(5));
  make_directories(path);
  std::vector<float> table(14);
  std::iota(table.begin(), table.end(), 0.0f);
  const std::int64_t whole = 77;
  CheckpointIndex index;
  index.step = 5;
  index.num_writers = 3;
  index.run_state = Json::object();
  index.tensors = {{{"table", StorageType::f32, {7, 2}}, {}},
                   {{"whole", StorageType::i64, {}}, {}}};
  const std::array<Index, 4> rows = {0, 3, 3, 7};
  for (std::size_t w = 0; w < 3; ++w) {
    const Index extent = rows[w + 1] - rows[w];
    const auto bytes =
        std::as_bytes(std::span(table))
            .subspan(static_cast<std::size_t>(rows[w] * 8), static_cast<std::size_t>(extent * 8));
    std::vector<StoredTensor> stored = {
        {{"table", StorageType::f32, {static_cast<std::uint64_t>(extent), 2}}, bytes}};
    index.tensors[0].slices.push_back({w, rows[w], extent, checksum_text(hash128(bytes))});
    if (w == 2) {
      const auto whole_bytes = std::as_bytes(std::span(&whole, 1));
      stored.push_back({{"whole", StorageType::i64, {}}, whole_bytes});
      index.tensors[1].slices.push_back({w, 0, 1, checksum_text(hash128(whole_bytes))});
    }
    const std::string file = join_path(path, writer_file_name(static_cast<Index>(w)));
    write_safetensors(file, stored, {});
    const std::string content = read_file(file);
    const SafetensorsFile written(file);
    index.files.push_back({base_name(file), static_cast<Index>(content.size()),
                           checksum_text(hash128(std::string_view(content).substr(
                               0, written.header().data_offset)))});
  }
  write_text(join_path(path, kIndexName), index_text(index));
  return path;
}

std::vector<float> rows_of(const CheckpointReader& reader, Index begin, Index count) {
  std::vector<float> out(static_cast<std::size_t>(count * 2));
  reader.read_rows("table", begin,
                   Tensor(reinterpret_cast<std::byte*>(out.data()), DType::f32, {count, 2}));
  return out;
}

}  // namespace

TEST_CASE("a published state reads back bit by bit") {
  const TestFolder folder;
  const TestState state(3);
  const std::string path = publish(folder.path(), 12, state);
  CHECK(base_name(path) == "step-00000012");
  CHECK(holds_state(path, state));
  CHECK(list_directory(path) == std::vector<std::string>{"index.json", "rank-00000.safetensors"});
  const CheckpointReader reader(path);
  CHECK(reader.step() == 12);
  CHECK(reader.run_state() == state.run_state());
  CHECK(reader.num_bytes() == 8 * 16 * 4 + 5 * 3 * 2 + 4 * 8 + 4);
}

TEST_CASE("reading asks for the stored type and shape") {
  const TestFolder folder;
  const CheckpointReader reader(publish(folder.path(), 1, TestState(1)));
  std::vector<float> out(128);
  const auto into = [&](std::string_view name, DType dtype, const Shape& shape) {
    return error_of(ErrorKind::damaged, [&] {
      reader.read(name, Tensor(reinterpret_cast<std::byte*>(out.data()), dtype, shape));
    });
  };
  CHECK(into("weights", DType::f32, {8, 16}).empty());
  CHECK(into("weights", DType::f32, {16, 8}).find("F32 [8, 16] but f32 [16, 8]") !=
        std::string::npos);
  CHECK(into("weights", DType::i32, {8, 16}).find("i32") != std::string::npos);
  CHECK(into("weights", DType::f32, {4, 16}).find("[4, 16]") != std::string::npos);
  CHECK(into("nothing", DType::f32, {8, 16}).find("no tensor \"nothing\"") != std::string::npos);
}

TEST_CASE("a checkpoint of several writers reads as whole tensors and as any rows") {
  const TestFolder folder;
  const std::string path = write_sliced(folder.path());
  const CheckpointReader reader(path);
  ThreadPool pool(3);
  Index num_seen = 0;
  reader.verify(&pool, [&](Index num_bytes) { num_seen += num_bytes; });
  CHECK(num_seen == reader.num_bytes());
  for (Index begin = 0; begin <= 7; ++begin) {
    for (Index count = 0; begin + count <= 7; ++count) {
      const std::vector<float> rows = rows_of(reader, begin, count);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        CHECK(rows[i] == static_cast<float>(2 * begin) + static_cast<float>(i));
      }
    }
  }
  std::int64_t whole = 0;
  reader.read("whole", Tensor(reinterpret_cast<std::byte*>(&whole), DType::i64, {}));
  CHECK(whole == 77);
  remove_all(join_path(path, writer_file_name(1)));
  CHECK(complaint(path).find("rank-00001.safetensors: is missing") != std::string::npos);
}

TEST_CASE("every flipped bit of every file is found") {
  const TestFolder folder;
  for (const std::string& path :
       {publish(folder.path(), 1, TestState(1)), write_sliced(folder.path())}) {
    CHECK(complaint(path).empty());
    for (const std::string& name : list_directory(path)) {
      const std::string file = join_path(path, name);
      // A stride that is prime to 8 visits all bit positions.
      for (Index bit = 0; bit < file_size(file) * 8; bit += 11) {
        flip_bit(file, bit);
        const std::string message = complaint(path);
        if (message.empty()) FAIL(name << ": bit " << bit << " was not found");
        if (message.find('\n') != std::string::npos) FAIL("more than one line: " << message);
        flip_bit(file, bit);
      }
    }
    CHECK(complaint(path).empty());
  }
}

TEST_CASE("reading a damaged tensor fails even without verify") {
  const TestFolder folder;
  const std::string path = publish(folder.path(), 1, TestState(1));
  const std::string file = path + "/rank-00000.safetensors";
  const SafetensorsFile mapped(file);
  const Index data = static_cast<Index>(mapped.header().data_offset);
  flip_bit(file, (data + static_cast<Index>(mapped.header().find("weights")->begin) + 100) * 8);
  const CheckpointReader reader(path);
  std::vector<float> out(128);
  CHECK(error_of(ErrorKind::damaged, [&] {
          reader.read("weights",
                      Tensor(reinterpret_cast<std::byte*>(out.data()), DType::f32, {8, 16}));
        }).find("tensor \"weights\"") != std::string::npos);
}

TEST_CASE("a file cut at any length, longer, or gone is found") {
  const TestFolder folder;
  const TestState state(1);
  for (const std::string name : {"index.json", "rank-00000.safetensors"}) {
    CAPTURE(name);
    const std::string path = publish(folder.path(), 1, state);
    const std::string file = join_path(path, name);
    const std::string content = read_file(file);
    for (Index length = 0; length < static_cast<Index>(content.size()); length += 7) {
      cut_file(file, length);
      CHECK_FALSE(complaint(path).empty());
      write_text(file, content);
    }
    write_text(file, content + " ");
    CHECK_FALSE(complaint(path).empty());
    remove_all(file);
    CHECK_FALSE(complaint(path).empty());
    remove_all(path);
  }
}

TEST_CASE("a step folder under another step's name is refused, under any other name read") {
  const TestFolder folder;
  const std::string path = publish(folder.path(), 1, TestState(1));
  std::filesystem::rename(path, folder / "step-00000002");
  CHECK(complaint(folder / "step-00000002").find("named for step 2") != std::string::npos);
  std::filesystem::rename(folder / "step-00000002", folder / "final");
  CHECK(complaint(folder / "final").empty());
}

TEST_CASE("step folders have names of at least eight digits in one spelling only") {
  CHECK(step_name(7) == "step-00000007");
  CHECK(step_name(123456789012) == "step-123456789012");
  CHECK(step_of_name("step-00000120") == 120);
  CHECK(step_of_name("step-123456789012") == 123456789012);
  for (const char* name :
       {"step-120", "step-", "step-0000012x", "step-00000120.partial", "Step-00000120",
        "step--0000120", "step-000000120", "step-99999999999999999999"}) {
    CAPTURE(name);
    CHECK_FALSE(step_of_name(name).has_value());
  }
}

TEST_CASE("an index with a right checksum and wrong content is refused") {
  const TestFolder folder;
  const CheckpointIndex good = CheckpointReader(write_sliced(folder.path())).index();
  const auto refusal = [&](const std::function<void(CheckpointIndex&)>& change) {
    CheckpointIndex index = good;
    change(index);
    return error_of(ErrorKind::damaged, [&] { parse_index(index_text(index), "index.json"); });
  };
  CHECK(refusal([](CheckpointIndex&) {}).empty());
  using I = CheckpointIndex&;
  CHECK_FALSE(refusal([](I x) { x.tensors[0].slices.pop_back(); }).empty());
  CHECK_FALSE(refusal([](I x) { x.tensors[0].slices.clear(); }).empty());
  CHECK_FALSE(refusal([](I x) { x.tensors[0].slices[1].offset = 2; }).empty());
  CHECK_FALSE(refusal([](I x) { x.tensors[0].slices[2].extent = 5; }).empty());
  CHECK_FALSE(refusal([](I x) { x.tensors[0].slices[2].extent = INT64_MAX; }).empty());
  CHECK_FALSE(refusal([](I x) { x.tensors[0].slices[1].file = 0; }).empty());
  CHECK_FALSE(refusal([](I x) { x.tensors[0].slices[0].checksum = "crc32:1"; }).empty());
  CHECK_FALSE(refusal([](I x) { x.tensors[0].spec.shape = {7, std::uint64_t{1} << 61}; }).empty());
  CHECK_FALSE(refusal([](I x) { x.tensors[1].spec.name = "table"; }).empty());
  CHECK_FALSE(refusal([](I x) { std::swap(x.tensors[0], x.tensors[1]); }).empty());
  CHECK_FALSE(refusal([](I x) { x.files[0].name = "../rank.safetensors"; }).empty());
  CHECK_FALSE(refusal([](I x) { x.files[0].name = x.files[1].name; }).empty());
  CHECK_FALSE(refusal([](I x) { x.files[0].num_bytes = -1; }).empty());
  CHECK_FALSE(refusal([](I x) { x.run_state = Json(3); }).empty());
  CHECK_FALSE(refusal([](I x) { x.step = -1; }).empty());
}

TEST_CASE("the newest checkpoint is found, and the one before when it is damaged") {
  const TestFolder folder;
  const TestState old_state(1), new_state(2);
  const std::string old_path = publish(folder.path(), 9, old_state);
  const std::string new_path = publish(folder.path(), 10, new_state);
  CHECK(find_newest(folder.path()).path == new_path);
  CHECK(find_newest(folder.path()).problems.empty());
  CHECK(find_newest(old_path).path == old_path);

  remove_all(new_path + "/rank-00000.safetensors");
  const FoundCheckpoint found = find_newest(folder.path());
  CHECK(found.path == old_path);
  REQUIRE(found.problems.size() == 1);
  CHECK(found.problems[0].find("rank-00000.safetensors: is missing") != std::string::npos);

  cut_file(old_path + "/index.json", 100);
  const std::string message =
      error_of(ErrorKind::damaged, [&] { static_cast<void>(find_newest(folder.path())); });
  CHECK(message.find("none of its 2 checkpoints is usable") != std::string::npos);
}

TEST_CASE("an empty folder or one with unfinished saves only holds nothing") {
  const TestFolder folder;
  CHECK(find_newest_checkpoint(folder.path()).empty());
  make_directories(folder / "step-00000003.partial");
  write_text(folder / "step-00000003.partial/index.json", "{");
  write_text(folder / ".hidden", "");
  CHECK(find_newest_checkpoint(folder.path()).empty());
  CHECK_FALSE(error_of(ErrorKind::usage, [&] {
                static_cast<void>(find_newest_checkpoint(folder / "absent"));
              }).empty());
}

TEST_CASE("a checkpoint one folder deeper is named instead of being overlooked") {
  const TestFolder folder;
  make_directories(folder / "2024-06-01");
  const std::string deeper = publish(folder / "2024-06-01", 4, TestState(1));
  const auto message = [&] {
    return error_of(ErrorKind::damaged,
                    [&] { static_cast<void>(find_newest_checkpoint(folder.path())); });
  };
  CHECK(message().find(deeper) != std::string::npos);
  remove_all(folder / "2024-06-01");
  write_text(folder / "notes.txt", "");
  CHECK(message().find("notes.txt") != std::string::npos);
}

TEST_CASE("a run folder stands for the checkpoints in it") {
  const TestFolder folder;
  make_directories(folder / "checkpoints");
  const std::string path = publish(folder / "checkpoints", 4, TestState(1));
  write_text(folder / "log.txt", "");
  CHECK(find_newest_checkpoint(folder.path()) == path);
}

}  // namespace zaya
