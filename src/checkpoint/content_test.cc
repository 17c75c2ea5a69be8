// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/content.h"

#include <doctest/doctest.h>

#include <cmath>

#include "checkpoint/publish.h"
#include "checkpoint/testing.h"

namespace zaya {

namespace {

std::string publish(const std::string& folder, Index step, const std::vector<NamedTensor>& tensors,
                    const Json& run_state) {
  return publish_checkpoint({folder, step, tensors, &run_state, nullptr}).path;
}

NamedTensor floats(const std::string& name, const std::vector<float>& values, const Shape& shape) {
  return {name, {reinterpret_cast<const std::byte*>(values.data()), DType::f32, shape}};
}

std::string digest_of(const std::string& path) { return content_digest(Content(path)); }

std::vector<Difference> compare(const std::string& a, const std::string& b) {
  return compare_contents(Content(a), Content(b));
}

// A [6, 2] tensor "w" of the given values as two files of 4 and 2 rows.
std::string write_two_slices(const std::string& folder, Index step,
                             const std::vector<float>& values) {
  const std::string path = join_path(folder, step_name(step));
  make_directories(path);
  CheckpointIndex index;
  index.step = step;
  index.num_writers = 2;
  index.run_state = Json::object();
  index.tensors = {{{"w", StorageType::f32, {6, 2}}, {}}};
  for (std::size_t file = 0; file < 2; ++file) {
    const std::uint64_t rows = file == 0 ? 4 : 2;
    const auto bytes = std::as_bytes(std::span(values)).subspan(file * 32, rows * 8);
    const StoredTensor stored{{"w", StorageType::f32, {rows, 2}}, bytes};
    const std::string file_path = join_path(path, writer_file_name(static_cast<Index>(file)));
    write_safetensors(file_path, std::span(&stored, 1), {});
    const SafetensorsFile written(file_path);
    const std::string content = read_file(file_path);
    const std::string_view head(content.data(), written.header().data_offset);
    index.files.push_back({writer_file_name(static_cast<Index>(file)),
                           static_cast<Index>(content.size()), checksum_text(hash128(head))});
    index.tensors[0].slices.push_back({file, static_cast<Index>(file * 4), static_cast<Index>(rows),
                                       checksum_text(hash128(bytes))});
  }
  write_text(join_path(path, kIndexName), index_text(index));
  return path;
}

}  // namespace

TEST_CASE("the digest depends on the logical content, not on files, order or volatile entries") {
  const TestFolder folder;
  std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const std::vector<NamedTensor> tensors = {floats("w", values, {6, 2})};
  const std::string one = publish(folder / "one", 3, tensors, Json::object());
  const std::string two = write_two_slices(folder / "two", 3, values);
  const std::string digest = digest_of(one);
  CHECK(digest.starts_with("xxh3-128:"));
  CHECK(digest.size() == 9 + 32);
  CHECK(digest_of(two) == digest);
  CHECK(compare(one, two).empty());
  ThreadPool pool(3);
  CHECK(content_digest(Content(two), &pool) == digest);

  Json state = Json::object();
  state.set("volatile", "threads 7");
  CHECK(digest_of(publish(folder / "volatile", 3, tensors, state)) == digest);
  state.set("tokens", 1);
  CHECK(digest_of(publish(folder / "state", 3, tensors, state)) != digest);
  CHECK(digest_of(publish(folder / "step", 4, tensors, Json::object())) != digest);
  CHECK(digest_of(publish(folder / "shape", 3, {floats("w", values, {2, 6})}, Json::object())) !=
        digest);
  CHECK(digest_of(publish(folder / "name", 3, {floats("v", values, {6, 2})}, Json::object())) !=
        digest);
  values[11] = 12;
  CHECK(digest_of(publish(folder / "value", 3, tensors, Json::object())) != digest);
}

TEST_CASE("the order of members in the run state does not matter") {
  const TestFolder folder;
  Json a = Json::object(), b = Json::object(), inner_a = Json::object(), inner_b = Json::object();
  inner_a.set("x", 1);
  inner_a.set("y", 2);
  inner_b.set("y", 2);
  inner_b.set("x", 1);
  a.set("p", inner_a);
  a.set("q", 1.5);
  b.set("q", 1.5);
  b.set("p", inner_b);
  const std::string first = publish(folder / "a", 1, {}, a);
  const std::string second = publish(folder / "b", 1, {}, b);
  CHECK(digest_of(first) == digest_of(second));
  CHECK(compare(first, second).empty());
}

TEST_CASE("the comparison names each tensor that differs and says by how much") {
  const TestFolder folder;
  std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const std::string before =
      publish(folder / "a", 1, {floats("w", values, {6, 2})}, Json::object());
  values[5] += 0.25f;
  values[9] -= 2;
  const std::string after = write_two_slices(folder / "b", 1, values);
  const std::vector<Difference> found = compare(before, after);
  REQUIRE(found.size() == 1);
  CHECK(found[0].where == "tensor \"w\"");
  CHECK(found[0].num_different == 2);
  CHECK(found[0].first == 5);
  CHECK(found[0].max_difference == 2);
  CHECK(found[0].text ==
        "2 of 12 values differ, the first at [2, 1] (5 against 5.25), by at most 2");
}

TEST_CASE("equal means equal bits, and a NaN is not hidden") {
  const TestFolder folder;
  const auto write = [&](const std::string& name, const std::vector<float>& values) {
    const StoredTensor stored{{"t", StorageType::f32, {3}}, std::as_bytes(std::span(values))};
    write_safetensors(folder / name, std::span(&stored, 1), {});
    return folder / name;
  };
  const float nan = std::nanf("");
  const std::string plain = write("plain.safetensors", {0.0f, 1.0f, nan});
  CHECK(compare(plain, write("same.safetensors", {0.0f, 1.0f, nan})).empty());
  const std::vector<Difference> zero = compare(plain, write("zero.safetensors", {-0.0f, 1, nan}));
  REQUIRE(zero.size() == 1);
  CHECK(zero[0].num_different == 1);
  CHECK(zero[0].max_difference == 0);
  const std::vector<Difference> broken = compare(plain, write("nan.safetensors", {0, nan, nan}));
  REQUIRE(broken.size() == 1);
  CHECK(std::isnan(broken[0].max_difference));
}

TEST_CASE("each damaged component is named, and it alone") {
  const TestFolder folder;
  std::vector<float> weights(8, 1.0f), moments(8, 2.0f);
  Json state = Json::object(), data = Json::object();
  data.set("position", 120);
  data.set("epoch", 1);
  state.set("data", data);
  state.set("rate", 0.5);
  const auto tensors = [&] {
    return std::vector<NamedTensor>{floats("model.w", weights, {8}),
                                    floats("optimizer.w.m", moments, {8})};
  };
  const std::string good = publish(folder / "good", 9, tensors(), state);
  const auto names_of = [&](const std::string& other) {
    std::vector<std::string> names;
    for (const Difference& difference : compare(good, other)) names.push_back(difference.where);
    return names;
  };
  using Names = std::vector<std::string>;
  weights[3] = 1.5f;
  CHECK(names_of(publish(folder / "w", 9, tensors(), state)) == Names{"tensor \"model.w\""});
  weights[3] = 1.0f;
  moments[7] = 0;
  CHECK(names_of(publish(folder / "m", 9, tensors(), state)) == Names{"tensor \"optimizer.w.m\""});
  moments[7] = 2.0f;
  Json other = state, other_data = data;
  other_data.set("position", 125);
  other.set("data", other_data);
  CHECK(names_of(publish(folder / "p", 9, tensors(), other)) == Names{"run_state.data.position"});
  CHECK(compare(good, folder / "p/step-00000009")[0].text == "120 against 125");
  other = state;
  other.set("rate", 0.25);
  CHECK(names_of(publish(folder / "r", 9, tensors(), other)) == Names{"run_state.rate"});
  other = state;
  other.set("extra", true);
  CHECK(names_of(publish(folder / "e", 9, tensors(), other)) == Names{"run_state.extra"});
  CHECK(names_of(publish(folder / "s", 10, tensors(), state)) == Names{"step"});
  CHECK(names_of(publish(folder / "t", 9, {floats("model.w", weights, {8})}, state)) ==
        Names{"tensor \"optimizer.w.m\""});
  CHECK(
      names_of(publish(folder / "x", 9,
                       {floats("model.w", weights, {2, 4}), floats("optimizer.w.m", moments, {8})},
                       state)) == Names{"tensor \"model.w\""});
  CHECK(names_of(good).empty());
}

TEST_CASE("a path may be a file, a step, a run or a model folder, and nothing else") {
  const TestFolder folder;
  const TestState state(2);
  make_directories(folder / "run/checkpoints");
  const std::string step =
      publish(folder / "run/checkpoints", 2, state.tensors(), state.run_state());
  for (const std::string& path : {step, folder / "run", folder / "run/checkpoints"}) {
    const Content content(path);
    CHECK(content.kind() == Content::Kind::checkpoint);
    CHECK(content.path() == step);
    content.verify();
  }
  const Content file(step + "/rank-00000.safetensors");
  CHECK(file.kind() == Content::Kind::safetensors);
  CHECK(file.metadata() == SafetensorsMetadata{{"format", "pt"}});
  make_directories(folder / "model");
  write_text(folder / "model/model.safetensors", read_file(step + "/rank-00000.safetensors"));
  CHECK(Content(folder / "model").kind() == Content::Kind::model_folder);
  CHECK(digest_of(folder / "model") == content_digest(file));

  const auto kind_of_failure = [&](const std::string& path) {
    return !error_of(ErrorKind::usage, [&] { Content content(path); }).empty()     ? 2
           : !error_of(ErrorKind::damaged, [&] { Content content(path); }).empty() ? 3
                                                                                   : 0;
  };
  CHECK(kind_of_failure(folder / "absent") == 2);
  make_directories(folder / "empty");
  CHECK(kind_of_failure(folder / "empty") == 2);
  make_directories(folder / "step-00000009.partial");
  CHECK(kind_of_failure(folder / "step-00000009.partial") == 3);
  make_directories(folder / "step-00000009");
  CHECK(kind_of_failure(folder / "step-00000009") == 3);
}

}  // namespace zaya
