// SPDX-License-Identifier: Apache-2.0
//
// Saves checkpoints without stopping training: save() copies the state, a thread writes, checks and
// publishes the copy. A save that fails (a full disk) is reported, not thrown; earlier checkpoints
// stay as they are.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "checkpoint/retention.h"
#include "tensor/named_tensor.h"

namespace zaya {

// What became of one save.
struct SaveResult {
  Index step = 0;
  bool is_ok = false;
  ErrorKind kind = ErrorKind::hardware;  // of the failure: numerics, hardware, damaged, usage
  std::string message;                   // of the failure
  std::string path;                      // of the checkpoint, when is_ok
  Index num_bytes = 0;                   // of the tensors
  double wait_seconds = 0;               // save() waited for the save before
  double snapshot_seconds = 0;           // save() copied and looked at the values
  double write_seconds = 0;              // the thread wrote and flushed
  double seconds = 0;                    // the thread wrote, checked and published
  bool was_present = false;              // the same checkpoint was there already; nothing written
  std::vector<std::string> pruned;       // checkpoints removed afterwards
};

struct WriterOptions {
  Retention retention;
  // The most memory for the copy. A state above it, or one for which the system refuses memory, is
  // written while save() waits, straight from the caller's tensors. 0: no limit.
  Index max_staging_bytes = 0;
  // A save is refused when it would leave less than this free on the file system.
  Index min_free_bytes = Index{64} << 20;
};

class CheckpointWriter {
 public:
  // Makes the folder, and removes what dead saves left in it, aloud. Only one writer may use a
  // folder at a time. The pool must outlive the writer; it copies within save().
  CheckpointWriter(std::string folder, Retention retention, ThreadPool& pool);
  CheckpointWriter(std::string folder, const WriterOptions& options, ThreadPool& pool);
  // Waits for the save under way; failures not yet polled are logged.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for an earlier save, then copies the tensors and returns; they may change from then on.
  // Refused, with a result for poll(): a NaN or infinity in a tensor or the run state (numerics),
  // and too little space on the disk (hardware). `run_state` is an object; its member "volatile" is
  // stored but no part of the logical content. Names must differ. Returns the seconds it took.
  double save(Index step, std::span<const NamedTensor> tensors, Json run_state);

  // Results since the last call, oldest first.
  std::vector<SaveResult> poll();
  // Waits until no save is under way; throws the failure of the last save, if it failed. Its result
  // stays for poll().
  void wait();
  // As wait(), for a limited time and without throwing; false when the save is still under way.
  bool wait_for(double seconds);
  // The save under way ends as soon as it can, as a failure.
  void abandon();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
