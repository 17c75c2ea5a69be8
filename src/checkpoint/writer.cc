// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer.h"

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/index.h"
#include "checkpoint/publish.h"
#include "checkpoint/snapshot.h"

namespace zaya {

namespace {

// Path of the first number in a value that is not finite, or "".
std::string path_of_not_finite(const Json& value, const std::string& path) {
  if (value.kind() == Json::Kind::real) return std::isfinite(value.as_real()) ? "" : path;
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      std::string found = path_of_not_finite(value.items()[i], fmt::format("{}[{}]", path, i));
      if (!found.empty()) return found;
    }
  }
  if (value.is_object()) {
    for (const auto& [key, member] : value.members()) {
      std::string found = path_of_not_finite(member, path + "." + key);
      if (!found.empty()) return found;
    }
  }
  return "";
}

// Error{hardware} with the arithmetic when the save does not fit on the disk.
void check_space(const std::string& folder, Index state_bytes, const Json& run_state,
                 std::size_t num_tensors, Index min_free_bytes) {
  // Header and index take a few hundred bytes per tensor.
  constexpr Index kBytesPerTensor = 1024;
  const Index index_bytes = static_cast<Index>(run_state.dump().size()) +
                            kBytesPerTensor * static_cast<Index>(num_tensors + 4);
  const Index available = free_bytes(folder);
  const Index needed = state_bytes + index_bytes;
  if (available - needed >= min_free_bytes) return;
  const auto shown = [](Index bytes) { return human_bytes(static_cast<double>(bytes)); };
  throw Error{ErrorKind::hardware,
              fmt::format("{}: {} free, but a checkpoint needs {} (tensors {}, index {}) and {} "
                          "must stay free: make room or keep fewer checkpoints",
                          folder, shown(available), shown(needed), shown(state_bytes),
                          shown(index_bytes), shown(min_free_bytes))};
}

}  // namespace

struct CheckpointWriter::State {
  std::string folder;
  WriterOptions options;
  ThreadPool& pool;
  Snapshot snapshot;
  bool has_warned_of_foreground = false;
  std::atomic<bool> is_abandoned{false};

  std::mutex mutex;  // guards all that follows
  std::condition_variable wake, done;
  bool is_busy = false, is_ending = false;
  SaveResult job;                        // the save under way
  std::span<const NamedTensor> tensors;  // of the job; in the snapshot, or the caller's
  Json run_state;                        // of the job
  std::vector<SaveResult> results;       // not yet polled
  std::optional<Error> last_failure;     // of the last save
  std::thread thread;

  State(std::string folder_path, const WriterOptions& writer_options, ThreadPool& thread_pool)
      : folder(std::move(folder_path)), options(writer_options), pool(thread_pool) {}

  void wait_until_idle(std::unique_lock<std::mutex>& lock) {
    done.wait(lock, [&] { return !is_busy; });
  }

  void finish(SaveResult result) {
    last_failure.reset();
    if (!result.is_ok) last_failure.emplace(result.kind, result.message);
    results.push_back(std::move(result));
  }

  void fail(SaveResult result, const Error& error) {
    result.kind = error.kind();
    result.message = error.message();
    finish(std::move(result));
  }

  // The thread's part of the job: never throws.
  void publish(SaveResult& result) {
    const double begin = monotonic_seconds();
    try {
      const Published published =
          publish_checkpoint({folder, result.step, tensors, &run_state, &is_abandoned});
      result.is_ok = true;
      result.path = published.path;
      result.was_present = published.was_present;
      result.write_seconds = published.write_seconds;
      result.pruned = prune_checkpoints(folder, result.step, options.retention);
    } catch (const Error& error) {
      result.kind = error.kind();
      result.message = error.message();
    } catch (const std::exception& error) {
      result.message = fmt::format("the save of step {} failed: {}", result.step, error.what());
    }
    result.seconds = monotonic_seconds() - begin;
  }

  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return is_busy || is_ending; });
      if (!is_busy) return;
      SaveResult result = std::move(job);
      lock.unlock();
      publish(result);
      lock.lock();
      finish(std::move(result));
      is_busy = false;
      done.notify_all();
    }
  }

  // Copies the tensors, or decides to write from the caller's. Returns true when save() has to wait
  // for the thread. Error{numerics} names what is not finite.
  bool stage(std::span<const NamedTensor> live, const Json& state, Index state_bytes) {
    const std::string entry = path_of_not_finite(state, "run_state");
    if (!entry.empty()) {
      throw Error{ErrorKind::numerics, entry + " is not a finite number: nothing was saved"};
    }
    bool is_foreground = options.max_staging_bytes > 0 && state_bytes > options.max_staging_bytes;
    std::optional<std::string> problem;
    if (!is_foreground) {
      try {
        problem = snapshot.take(live, &pool);
        tensors = snapshot.tensors();
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::hardware) throw;
        is_foreground = true;
      }
    }
    if (is_foreground) {
      if (!std::exchange(has_warned_of_foreground, true)) {
        log_warning(
            fmt::format("the state ({}) is not copied (limit or memory): checkpoints are "
                        "written while training waits",
                        human_bytes(static_cast<double>(state_bytes))));
      }
      snapshot.release();
      problem = find_not_finite(live, &pool);
      tensors = live;
    }
    if (problem) throw Error{ErrorKind::numerics, *problem + ": nothing was saved"};
    return is_foreground;
  }
};

CheckpointWriter::CheckpointWriter(std::string folder, Retention retention, ThreadPool& pool)
    : CheckpointWriter(std::move(folder), WriterOptions{.retention = retention}, pool) {}

CheckpointWriter::CheckpointWriter(std::string folder, const WriterOptions& options,
                                   ThreadPool& pool)
    : state_(std::make_unique<State>(std::move(folder), options, pool)) {
  make_directories(state_->folder);
  remove_leftovers(state_->folder);
  state_->thread = std::thread([state = state_.get()] { state->serve(); });
}

CheckpointWriter::~CheckpointWriter() {
  State& s = *state_;
  {
    std::lock_guard lock(s.mutex);
    s.is_ending = true;
  }
  s.wake.notify_all();
  s.thread.join();
  for (const SaveResult& result : s.results) {
    if (!result.is_ok) {
      log_error(
          fmt::format("checkpoint of step {} was not saved: {}", result.step, result.message));
    }
  }
}

double CheckpointWriter::save(Index step, std::span<const NamedTensor> tensors, Json run_state) {
  ZAYA_CHECK(step >= 0 && run_state.is_object());
  State& s = *state_;
  const double begin = monotonic_seconds();
  std::unique_lock lock(s.mutex);
  // The copy below goes into the memory that the thread reads: it has to be done with it.
  s.wait_until_idle(lock);
  const double copy_begin = monotonic_seconds();
  SaveResult result;
  result.step = step;
  result.num_bytes = total_bytes(tensors);
  result.wait_seconds = copy_begin - begin;
  bool is_foreground = false;
  try {
    check_space(s.folder, result.num_bytes, run_state, tensors.size(), s.options.min_free_bytes);
    is_foreground = s.stage(tensors, run_state, result.num_bytes);
  } catch (const Error& error) {
    result.snapshot_seconds = monotonic_seconds() - copy_begin;
    s.fail(std::move(result), error);
    return monotonic_seconds() - begin;
  }
  result.snapshot_seconds = monotonic_seconds() - copy_begin;
  s.job = std::move(result);
  s.run_state = std::move(run_state);
  s.is_abandoned = false;
  s.is_busy = true;
  s.wake.notify_all();
  if (is_foreground) s.wait_until_idle(lock);
  return monotonic_seconds() - begin;
}

std::vector<SaveResult> CheckpointWriter::poll() {
  std::lock_guard lock(state_->mutex);
  return std::exchange(state_->results, {});
}

void CheckpointWriter::wait() {
  std::unique_lock lock(state_->mutex);
  state_->wait_until_idle(lock);
  if (state_->last_failure) throw Error(*state_->last_failure);
}

bool CheckpointWriter::wait_for(double seconds) {
  std::unique_lock lock(state_->mutex);
  return state_->done.wait_for(lock, std::chrono::duration<double>(seconds),
                               [&] { return !state_->is_busy; });
}

void CheckpointWriter::abandon() { state_->is_abandoned = true; }

}  // namespace zaya
