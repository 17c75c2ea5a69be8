// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/testing.h"

#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <fstream>

#include "checkpoint/reader.h"

namespace zaya {

TestFolder::TestFolder() {
  static int count = 0;
  path_ = "/tmp/zaya-checkpoint-" + std::to_string(getpid()) + "-" + std::to_string(++count);
  remove_all(path_);
  make_directories(path_);
}

TestFolder::~TestFolder() { remove_all(path_); }

void TestState::fill(Index seed) {
  seed_ = seed;
  const auto value = [&](std::size_t i) {
    return static_cast<float>((static_cast<Index>(i) * 37 + seed * 11) % 1009) / 64.0f - 7.0f;
  };
  weights_.resize(8 * 16);
  halves_.resize(5 * 3);
  counts_.resize(4);
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] = value(i);
  for (std::size_t i = 0; i < halves_.size(); ++i) halves_[i] = bf16(value(i + 500)).bits;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] = seed * 1000003 + static_cast<Index>(i);
  }
  scalar_ = value(900);
}

std::vector<NamedTensor> TestState::tensors() const {
  const auto bytes = [](const auto* data) { return reinterpret_cast<const std::byte*>(data); };
  return {{"weights", {bytes(weights_.data()), DType::f32, {8, 16}}},
          {"half", {bytes(halves_.data()), DType::bf16, {5, 3}}},
          {"counts", {bytes(counts_.data()), DType::i64, {4}}},
          {"scalar", {bytes(&scalar_), DType::f32, {}}},
          {"empty", {bytes(weights_.data()), DType::f32, {0, 7}}}};
}

Json TestState::run_state() const {
  Json data = Json::object();
  data.set("position", seed_ * 12);
  Json volatile_part = Json::object();
  volatile_part.set("time_unix", 1.5e9 + static_cast<double>(getpid()));
  Json out = Json::object();
  out.set("tokens", seed_ * 4096);
  out.set("configuration", "xxh3-128:0123");
  out.set("data", std::move(data));
  out.set("volatile", std::move(volatile_part));
  return out;
}

bool holds_state(const std::string& step_folder, const TestState& state) {
  const CheckpointReader reader(step_folder);
  reader.verify();
  const std::vector<NamedTensor> tensors = state.tensors();
  if (reader.names().size() != tensors.size()) return false;
  for (const NamedTensor& named : tensors) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(named.tensor.num_bytes()) + 1);
    reader.read(named.name, Tensor(bytes.data(), named.tensor.dtype(), named.tensor.shape()));
    if (std::memcmp(bytes.data(), named.tensor.data(), bytes.size() - 1) != 0) return false;
  }
  return reader.run_state().at("tokens") == state.run_state().at("tokens");
}

void flip_bit(const std::string& path, Index bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(bit / 8);
  char byte = 0;
  file.read(&byte, 1);
  byte = static_cast<char>(byte ^ (1 << (bit % 8)));
  file.seekp(bit / 8);
  file.write(&byte, 1);
}

void cut_file(const std::string& path, Index num_bytes) {
  if (truncate(path.c_str(), num_bytes) != 0) {
    throw Error{ErrorKind::hardware, path + ": can't be cut by the test"};
  }
}

void write_text(const std::string& path, std::string_view text) {
  FileWriter writer(path);
  writer.write(text);
  writer.close();
}

std::string error_of(ErrorKind kind, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.kind() == kind) return error.message();
  }
  return "";
}

int run_in_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      body();
    } catch (const std::exception&) {
      _exit(99);
    }
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace zaya
