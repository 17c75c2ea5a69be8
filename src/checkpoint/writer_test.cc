// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/clock.h"
#include "base/fault_point.h"
#include "checkpoint/reader.h"
#include "checkpoint/testing.h"

namespace zaya {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasSanitizer = true;
#else
constexpr bool kHasSanitizer = false;
#endif

// Disarms at the end of the scope.
struct ArmedFault {
  explicit ArmedFault(std::string_view text) { arm_fault_point(text); }
  ~ArmedFault() { arm_fault_point(""); }
};

double save(CheckpointWriter& writer, Index step, const TestState& state) {
  return writer.save(step, state.tensors(), state.run_state());
}

// Saves, waits, and returns the one result.
SaveResult save_now(CheckpointWriter& writer, Index step, const TestState& state) {
  save(writer, step, state);
  while (!writer.wait_for(10)) {
  }
  const std::vector<SaveResult> results = writer.poll();
  REQUIRE(results.size() == 1);
  return results[0];
}

// A line such as "VmRSS:  1234 kB" of /proc/self/status, in bytes.
Index memory_of_process(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    Index kib = 0;
    if (word == key + ":" && status >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace

TEST_CASE("a save is published, reported once and readable") {
  const TestFolder folder;
  ThreadPool pool(2);
  CheckpointWriter writer(folder / "checkpoints", Retention{}, pool);
  const TestState state(5);
  const SaveResult result = save_now(writer, 120, state);
  CHECK(result.is_ok);
  CHECK(result.step == 120);
  CHECK(result.path == folder / "checkpoints/step-00000120");
  CHECK(result.num_bytes == CheckpointReader(result.path).num_bytes());
  CHECK(holds_state(result.path, state));
  CHECK(writer.poll().empty());
  writer.wait();
}

TEST_CASE("what is written is the state at the save, whatever training does meanwhile") {
  const TestFolder folder;
  ThreadPool pool(2);
  TestState state(1);
  {
    CheckpointWriter writer(folder.path(), Retention{}, pool);
    const ArmedFault slow("checkpoint.tensors.write=sleep:500");
    save(writer, 1, state);
    CHECK_FALSE(writer.wait_for(0));  // nothing is written yet
    state.fill(99);
    writer.wait();
  }
  CHECK(holds_state(folder / "step-00000001", TestState(1)));
}

TEST_CASE("a save waits for the one before instead of writing into its copy") {
  const TestFolder folder;
  ThreadPool pool(2);
  TestState state;
  {
    CheckpointWriter writer(folder.path(), Retention{0, 0}, pool);
    const ArmedFault slow("checkpoint.tensors.write=sleep:20");
    for (Index step = 1; step <= 8; ++step) {
      state.fill(step);
      save(writer, step, state);
    }
    writer.wait();
    const std::vector<SaveResult> results = writer.poll();
    CHECK(results.size() == 8);
    double waited = 0;
    for (const SaveResult& result : results) waited += result.wait_seconds;
    CHECK(waited > 0.01);
  }
  for (Index step = 1; step <= 8; ++step) {
    CHECK(holds_state(join_path(folder.path(), step_name(step)), TestState(step)));
  }
}

TEST_CASE("a failing disk is reported, leaves no partial folder, and harms no earlier checkpoint") {
  for (const std::string fault :
       {"checkpoint.tensors.open=enospc", "checkpoint.tensors.write=enospc",
        "checkpoint.tensors.flush=eio", "checkpoint.index.open=eio",
        "checkpoint.index.write=enospc", "checkpoint.index.flush=enospc", "file.read=eio",
        "file.read=eio@2"}) {
    CAPTURE(fault);
    const TestFolder folder;
    ThreadPool pool(1);
    CheckpointWriter writer(folder.path(), Retention{}, pool);
    CHECK(save_now(writer, 1, TestState(1)).is_ok);
    {
      const ArmedFault armed(fault);
      const SaveResult result = save_now(writer, 2, TestState(2));
      CHECK_FALSE(result.is_ok);
      CHECK(result.kind == ErrorKind::hardware);
      CHECK(result.message.find(folder.path()) != std::string::npos);
      CHECK(error_of(ErrorKind::hardware, [&] { writer.wait(); }) == result.message);
    }
    CHECK(list_directory(folder.path()) == std::vector<std::string>{"step-00000001"});
    CHECK(holds_state(folder / "step-00000001", TestState(1)));
    CHECK(save_now(writer, 3, TestState(3)).is_ok);
    writer.wait();
    CHECK(holds_state(folder / "step-00000003", TestState(3)));
  }
}

TEST_CASE("bytes that change on their way to the disk are found before the checkpoint is named") {
  const TestFolder folder;
  ThreadPool pool(1);
  CheckpointWriter writer(folder.path(), Retention{}, pool);
  const ArmedFault slow("checkpoint.before_verify=sleep:1000");
  save(writer, 1, TestState(1));
  const std::string file = folder / "step-00000001.partial/rank-00000.safetensors";
  const std::string index = folder / "step-00000001.partial/index.json";
  while (!is_file(index) || file_size(index) == 0) {
  }
  flip_bit(file, file_size(file) * 8 - 100);
  CHECK(error_of(ErrorKind::damaged, [&] { writer.wait(); }).find("checksum") != std::string::npos);
  CHECK(list_directory(folder.path()).empty());
}

TEST_CASE("a save that does not fit is refused before anything is written, with the arithmetic") {
  const TestFolder folder;
  ThreadPool pool(1);
  WriterOptions options;
  options.min_free_bytes = Index{1} << 60;
  CheckpointWriter writer(folder.path(), options, pool);
  const SaveResult result = save_now(writer, 1, TestState(1));
  CHECK_FALSE(result.is_ok);
  CHECK(result.kind == ErrorKind::hardware);
  CHECK(result.message.find("a checkpoint needs") != std::string::npos);
  CHECK(result.message.find("tensors 578 B") != std::string::npos);
  CHECK(list_directory(folder.path()).empty());
}

TEST_CASE("values that are not finite are refused and named, and earlier checkpoints stay") {
  const TestFolder folder;
  ThreadPool pool(2);
  CheckpointWriter writer(folder.path(), Retention{1, 0}, pool);
  CHECK(save_now(writer, 1, TestState(1)).is_ok);
  TestState poisoned(2);
  poisoned.weight(37) = std::numeric_limits<float>::quiet_NaN();
  SaveResult result = save_now(writer, 2, poisoned);
  CHECK_FALSE(result.is_ok);
  CHECK(result.kind == ErrorKind::numerics);
  CHECK(result.message.find("tensor \"weights\" holds nan at element 37 of f32 [8, 16]") !=
        std::string::npos);
  CHECK_FALSE(error_of(ErrorKind::numerics, [&] { writer.wait(); }).empty());

  poisoned.weight(37) = -std::numeric_limits<float>::infinity();
  CHECK(save_now(writer, 2, poisoned).message.find("-inf") != std::string::npos);

  const std::uint16_t infinite = 0x7f80;
  const double nan = std::nan("");
  const std::vector<NamedTensor> others = {
      {"h", {reinterpret_cast<const std::byte*>(&infinite), DType::bf16, {1}}},
      {"d", {reinterpret_cast<const std::byte*>(&nan), DType::f64, {}}}};
  for (const NamedTensor& other : others) {
    writer.save(2, std::span(&other, 1), Json::object());
    CHECK(writer.poll().at(0).kind == ErrorKind::numerics);
  }

  Json run_state = TestState(2).run_state();
  Json losses = Json::array();
  losses.push(1.0);
  losses.push(nan);
  run_state.set("losses", losses);
  writer.save(2, TestState(2).tensors(), run_state);
  CHECK(writer.poll().at(0).message.find("run_state.losses[1]") != std::string::npos);

  CHECK(list_directory(folder.path()) == std::vector<std::string>{"step-00000001"});
  CHECK(holds_state(folder / "step-00000001", TestState(1)));
}

TEST_CASE("saving the same state at the same step again changes no byte") {
  const TestFolder folder;
  ThreadPool pool(1);
  CheckpointWriter writer(folder.path(), Retention{}, pool);
  const SaveResult first = save_now(writer, 7, TestState(7));
  const std::string index = first.path + "/index.json";
  const auto written_at = std::filesystem::last_write_time(index);
  const std::string content = read_file(index);
  Json state = TestState(7).run_state();
  state.set("volatile", "later");
  writer.save(7, TestState(7).tensors(), state);
  writer.wait();
  const SaveResult again = writer.poll().at(0);
  CHECK(again.is_ok);
  CHECK(again.was_present);
  CHECK(std::filesystem::last_write_time(index) == written_at);
  CHECK(read_file(index) == content);
}

TEST_CASE("another state at the same step replaces what stands there, damaged or not") {
  const TestFolder folder;
  ThreadPool pool(1);
  CheckpointWriter writer(folder.path(), Retention{}, pool);
  const std::string path = save_now(writer, 7, TestState(7)).path;
  CHECK_FALSE(save_now(writer, 7, TestState(8)).was_present);
  CHECK(holds_state(path, TestState(8)));
  flip_bit(path + "/rank-00000.safetensors", file_size(path + "/rank-00000.safetensors") * 8 - 1);
  CHECK_FALSE(save_now(writer, 7, TestState(8)).was_present);
  CHECK(holds_state(path, TestState(8)));
  remove_all(path + "/index.json");
  CHECK(save_now(writer, 7, TestState(8)).is_ok);
  CHECK(holds_state(path, TestState(8)));
  CHECK(list_directory(folder.path()) == std::vector<std::string>{"step-00000007"});
}

TEST_CASE("what dead saves left behind is removed at the start, nothing else") {
  const TestFolder folder;
  make_directories(folder / "step-00000004.partial");
  write_text(folder / "step-00000004.partial/rank-00000.safetensors", "half");
  make_directories(folder / "notes.partial");
  make_directories(folder / "step-00000003");
  ThreadPool pool(1);
  const CheckpointWriter writer(folder.path(), Retention{}, pool);
  CHECK(list_directory(folder.path()) ==
        std::vector<std::string>{"notes.partial", "step-00000003"});
}

TEST_CASE("retention keeps the newest, the multiples, and what was just published") {
  const std::vector<Index> steps = {10, 20, 30, 40, 50, 60};
  using Steps = std::vector<Index>;
  CHECK(steps_to_prune(steps, 60, {2, 0}) == Steps{10, 20, 30, 40});
  CHECK(steps_to_prune(steps, 60, {2, 20}) == Steps{10, 30});
  CHECK(steps_to_prune(steps, 60, {1, 0}) == Steps{10, 20, 30, 40, 50});
  CHECK(steps_to_prune(steps, 60, {0, 0}).empty());
  CHECK(steps_to_prune(steps, 60, {9, 0}).empty());
  CHECK(steps_to_prune(steps, 20, {1, 0}) == Steps{10, 30, 40, 50});
  CHECK(steps_to_prune({}, 0, {1, 0}).empty());
}

TEST_CASE("old checkpoints go after a new one is published; damaged ones are left alone") {
  const TestFolder folder;
  ThreadPool pool(1);
  CheckpointWriter writer(folder.path(), Retention{2, 4}, pool);
  for (Index step = 1; step <= 3; ++step) CHECK(save_now(writer, step, TestState(step)).is_ok);
  remove_all(folder / "step-00000002/index.json");
  for (Index step = 4; step <= 6; ++step) CHECK(save_now(writer, step, TestState(step)).is_ok);
  const SaveResult last = save_now(writer, 7, TestState(7));
  CHECK(last.pruned == std::vector<std::string>{folder / "step-00000005"});
  CHECK(list_directory(folder.path()) == std::vector<std::string>{"step-00000002", "step-00000004",
                                                                  "step-00000006",
                                                                  "step-00000007"});
}

TEST_CASE("a failed save prunes nothing") {
  const TestFolder folder;
  ThreadPool pool(1);
  CheckpointWriter writer(folder.path(), Retention{1, 0}, pool);
  CHECK(save_now(writer, 1, TestState(1)).is_ok);
  const ArmedFault full("checkpoint.index.write=enospc");
  CHECK_FALSE(save_now(writer, 2, TestState(2)).is_ok);
  CHECK(list_directory(folder.path()) == std::vector<std::string>{"step-00000001"});
}

TEST_CASE("a window of columns is saved as the tensor it shows") {
  const TestFolder folder;
  ThreadPool pool(2);
  std::vector<float> table(6 * 10);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  const ConstTensor whole(reinterpret_cast<const std::byte*>(table.data()), DType::f32, {6, 10});
  const NamedTensor window{"window", whole.column_window(3, 7)};
  for (const Index limit : {Index{0}, Index{1}}) {  // with a copy, and without
    WriterOptions options;
    options.max_staging_bytes = limit;
    CheckpointWriter writer(folder / "other", options, pool);
    writer.save(limit, std::span(&window, 1), Json::object());
    writer.wait();
    std::vector<float> out(24);
    CheckpointReader(join_path(folder / "other", step_name(limit)))
        .read("window", Tensor(reinterpret_cast<std::byte*>(out.data()), DType::f32, {6, 4}));
    CHECK(out[0] == 3);
    CHECK(out[23] == 56);
  }
}

TEST_CASE("a state above the limit for copies is written while the save waits") {
  const TestFolder folder;
  ThreadPool pool(2);
  WriterOptions options;
  options.max_staging_bytes = 100;
  CheckpointWriter writer(folder.path(), options, pool);
  TestState state(4);
  const ArmedFault slow("checkpoint.tensors.write=sleep:50");
  CHECK(save(writer, 4, state) > 0.05);
  state.fill(5);
  CHECK(writer.poll().at(0).is_ok);
  CHECK(holds_state(folder / "step-00000004", TestState(4)));
  state.weight(0) = std::nanf("");
  save(writer, 5, state);
  CHECK(writer.poll().at(0).kind == ErrorKind::numerics);
}

TEST_CASE("two tensors of one name are refused") {
  const TestFolder folder;
  ThreadPool pool(1);
  CheckpointWriter writer(folder.path(), Retention{}, pool);
  const TestState state(1);
  std::vector<NamedTensor> twice = state.tensors();
  twice.push_back(twice[0]);
  writer.save(1, twice, Json::object());
  CHECK(error_of(ErrorKind::usage, [&] { writer.wait(); }).find("twice") != std::string::npos);
  CHECK(list_directory(folder.path()).empty());
}

TEST_CASE("waiting can be limited, and a save given up when the grace period is over") {
  const TestFolder folder;
  ThreadPool pool(1);
  {
    CheckpointWriter writer(folder.path(), Retention{}, pool);
    CHECK(save_now(writer, 1, TestState(1)).is_ok);
    const ArmedFault slow("checkpoint.tensors.write=sleep:1000");
    save(writer, 2, TestState(2));
    CHECK_FALSE(writer.wait_for(0.02));
    writer.abandon();
    CHECK(writer.wait_for(10));
    const std::vector<SaveResult> results = writer.poll();
    CHECK_FALSE(results.at(0).is_ok);
    CHECK(results.at(0).message.find("given up") != std::string::npos);
  }
  CHECK(list_directory(folder.path()) == std::vector<std::string>{"step-00000001"});
}

TEST_CASE("the end of a writer waits for the save under way") {
  const TestFolder folder;
  ThreadPool pool(1);
  const ArmedFault slow("checkpoint.tensors.write=sleep:100");
  {
    CheckpointWriter writer(folder.path(), Retention{}, pool);
    save(writer, 1, TestState(1));
  }
  CHECK(holds_state(folder / "step-00000001", TestState(1)));
}

TEST_CASE("memory stays flat over 200 saves" * doctest::test_suite("slow")) {
  const TestFolder folder;
  ThreadPool pool(2);
  std::vector<float> values(300000, 1.0f);
  const NamedTensor tensor{
      "w", {reinterpret_cast<const std::byte*>(values.data()), DType::f32, {300, 1000}}};
  CheckpointWriter writer(folder.path(), Retention{2, 0}, pool);
  // The least memory seen in some idle moments: buffers come and go with each save.
  Index early = std::numeric_limits<Index>::max(), late = early;
  for (Index step = 1; step <= 200; ++step) {
    values[0] = static_cast<float>(step);
    writer.save(step, std::span(&tensor, 1), TestState(step).run_state());
    const bool is_early = step > 10 && step <= 20;
    if (is_early || step > 190) {
      writer.wait();
      Index& least = is_early ? early : late;
      least = std::min(least, memory_of_process("VmRSS"));
    }
    for (const SaveResult& result : writer.poll()) REQUIRE(result.is_ok);
  }
  REQUIRE(early > 0);
  const Index grown = late - early;
  MESSAGE("grown by " << grown << " bytes");
  // Sanitizers keep freed memory for a while.
  if (!kHasSanitizer) CHECK(grown < Index{1} << 20);
}

TEST_CASE("a state that memory does not hold twice is saved all the same" *
          doctest::test_suite("slow")) {
  if (kHasSanitizer) {
    MESSAGE("left out: sanitizers reserve more address space than this limit");
    return;
  }
  const TestFolder folder;
  std::vector<float> values(32 << 20, 0.5f);  // 128 MiB
  const NamedTensor tensor{"w",
                           {reinterpret_cast<const std::byte*>(values.data()),
                            DType::f32,
                            {static_cast<Index>(values.size())}}};
  const int status = run_in_child([&] {
    // The limit leaves 0.3 of the state for everything that saving needs.
    const Index limit = memory_of_process("VmSize") + tensor.tensor.num_bytes() * 3 / 10;
    const rlimit limits{static_cast<rlim_t>(limit), static_cast<rlim_t>(limit)};
    if (setrlimit(RLIMIT_AS, &limits) != 0) throw std::bad_alloc();
    ThreadPool pool(1);
    CheckpointWriter writer(folder.path(), Retention{}, pool);
    writer.save(1, std::span(&tensor, 1), Json::object());
    writer.wait();
  });
  CHECK(status == 0);
  CheckpointReader(folder / "step-00000001").verify();
}

}  // namespace zaya
