// SPDX-License-Identifier: Apache-2.0
//
// What the tests of this folder share: a folder to write into, a small state, damage on demand.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "tensor/named_tensor.h"

namespace zaya {

// An empty folder below /tmp that goes at the end of the scope.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return join_path(path_, name); }

 private:
  std::string path_;
};

// A training state in small: weights f32 [8, 16], half bf16 [5, 3], counts i64 [4], scalar f32 [],
// empty f32 [0, 7]. Values depend on the seed given to fill().
class TestState {
 public:
  explicit TestState(Index seed = 0) { fill(seed); }

  void fill(Index seed);
  std::vector<NamedTensor> tensors() const;
  Json run_state() const;
  // The element of the f32 weights, to be poisoned.
  float& weight(Index i) { return weights_[static_cast<std::size_t>(i)]; }

 private:
  Index seed_ = 0;
  std::vector<float> weights_;
  std::vector<std::uint16_t> halves_;
  std::vector<std::int64_t> counts_;
  float scalar_ = 0;
};

// Does the step folder hold this state, bit by bit? Reads through CheckpointReader, so damage
// throws.
bool holds_state(const std::string& step_folder, const TestState& state);

void flip_bit(const std::string& path, Index bit);
void cut_file(const std::string& path, Index num_bytes);
void write_text(const std::string& path, std::string_view text);

// Message of the Error of that kind that the call throws; "" when it throws none of that kind.
std::string error_of(ErrorKind kind, const std::function<void()>& call);

// Runs `body` in a child process that is expected to leave through a fault point. Returns its exit
// status: 137 after a kill, 0 when it came to its end, 99 after an exception.
int run_in_child(const std::function<void()>& body);

}  // namespace zaya
