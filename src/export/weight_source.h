// SPDX-License-Identifier: Apache-2.0
//
// The weights of a model wherever they lie: a checkpoint of this project, a published folder in
// either layout, or nowhere yet (fresh values of a seed). Values come as f32, part by part, so that
// nobody needs memory for a whole model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/function_ref.h"
#include "base/json.h"
#include "export/hf_config.h"
#include "model/params.h"

namespace zaya {

class ThreadPool;

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Checks names, types and shapes before any value is read. Error{damaged} lists every parameter
  // that is missing or misshapen and every tensor that does not belong to the model.
  virtual void check(const ParamSet& params) const = 0;
  // Fills out (f32, contiguous) with the entries [begin, begin + out.dim(0)) of the parameter's
  // first dim. Thread-safe. Reading whole parameters of a checkpoint compares their checksums.
  virtual void read(const Param& param, Index begin, Tensor out) const = 0;
  // The parameter's bytes where they lie in a map, if they are stored as one aligned tensor of this
  // dtype. For reading only; they belong to the source.
  virtual std::optional<Tensor> mapped(const Param& param, DType dtype) const;
  // Does the source store the parameter as bf16, so that rounding it to bf16 changes nothing?
  virtual bool is_stored_as_bf16(const Param& param) const;
};

// Opens a step folder; `run_state` receives the checkpoint's run state.
std::unique_ptr<WeightSource> checkpoint_weights(const std::string& step_folder, Json& run_state);
// Maps a published folder.
std::unique_ptr<WeightSource> folder_weights(const std::string& path, const HfConfig& config);
// What training from scratch with this seed starts from. The pool must outlive the result.
std::unique_ptr<WeightSource> fresh_weights(const ModelConfig& config, std::uint64_t seed,
                                            ThreadPool& pool);

// Calls use(begin, end) for ranges of the first dim in order, each at most 16 MiB of f32 (or one
// entry, if that is larger).
void for_each_range(const Shape& shape, FunctionRef<void(Index begin, Index end)> use);
// Elements of the largest of those ranges.
Index largest_range(const Shape& shape);

}  // namespace zaya
