// SPDX-License-Identifier: Apache-2.0
//
// From tensors to a checkpoint on disk: written under another name, flushed, read back, checked,
// renamed. What stands under step-XXXXXXXX is complete at every moment.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "base/json.h"
#include "base/types.h"
#include "tensor/named_tensor.h"

namespace zaya {

struct PublishArgs {
  std::string folder;  // of step folders
  Index step = 0;
  std::span<const NamedTensor> tensors;
  const Json* run_state = nullptr;
  // When it becomes true the work ends with an Error at its next part.
  const std::atomic<bool>* is_abandoned = nullptr;
};

struct Published {
  std::string path;
  Index num_bytes = 0;
  // A complete checkpoint of this step with the same logical content stood there already; nothing
  // was written.
  bool was_present = false;
  double write_seconds = 0;  // until everything was on the device, before it was read back
};

// Writes step-N.partial, then puts it in place of step-N; an older step-N of other content, or a
// damaged one, goes afterwards. On failure the partial folder is removed and nothing else has
// changed. Passes the fault points checkpoint.tensors.{open,write,flush},
// checkpoint.index.{open,write,flush}, checkpoint.{before_verify,before_rename,after_rename}.
Published publish_checkpoint(const PublishArgs& args);

// Members of a run state that enter digests and comparisons: all but kVolatileKey.
Json lasting_state(const Json& run_state);

}  // namespace zaya
