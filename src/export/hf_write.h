// SPDX-License-Identifier: Apache-2.0
//
// Writes a model as a published folder: config.json, generation_config.json, model.safetensors (or
// shards with an index), tokenizer files. The folder appears under its name complete, flushed and
// proved, or not at all.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "export/model_folder.h"

namespace zaya {

struct ExportOptions {
  std::string output;  // a folder that does not exist yet
  Layout layout = Layout::native;
  // f32 or bf16: rounded to nearest, ties to even. Balancing biases stay f32.
  DType dtype = DType::f32;
  // A file holds at least one tensor and as many as fit into this size.
  Index max_shard_bytes = 5'000'000'000;
  // Memory that the proof may take; 0: not checked.
  Index available_bytes = 0;
};

struct ExportResult {
  Index num_tensors = 0, num_elements = 0, num_bytes = 0;  // of all stored tensors
  std::vector<std::string> files;                          // names of the .safetensors files
  std::optional<double> max_deviation;                     // of the proof's logits; none: no proof
};

// Called with the bytes of tensors written so far and in all. May throw to end the work: nothing
// stays.
using ExportObserver = std::function<void(Index done, Index total)>;

// With a backend of the numerics of options.dtype the folder is proved before it gets its name: it
// is opened as any model is, and its logits must equal the source's (rounded to options.dtype) in
// every bit; Error{damaged} otherwise. Error{usage}: output exists, the layout can't express the
// model, the proof does not fit into memory. Error{hardware}: the disk. Passes the fault points
// export.tensors.{open,write,flush} and export.before_rename.
ExportResult export_model(const ModelOrigin& source, const Backend* backend,
                          const ExportOptions& options, const ExportObserver& observer = {});

// The dtype in which the source stores its largest matrices: f32 or bf16.
DType stored_dtype(const ModelOrigin& source);

}  // namespace zaya
