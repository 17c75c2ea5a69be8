// SPDX-License-Identifier: Apache-2.0
//
// The one pool of threads of a process, made in main (or by a test). Work is split by the caller
// into tasks whose boundaries depend on shapes only; which thread runs a task is free, so a task
// must write only what no other task writes.
#pragma once

#include <memory>

#include "base/function_ref.h"
#include "base/types.h"

namespace zaya {

class ThreadPool {
 public:
  // num_threads counts the calling thread; at least 1.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls body(task, worker) for each task in [0, num_tasks), handed out in increasing order;
  // worker is in [0, num_threads()). Returns when all are done. Allocates nothing. Calls from
  // inside a task run serially on that worker. An exception thrown by a task is rethrown here
  // (the first one) after all running tasks have ended; the remaining tasks are dropped.
  // One thread at a time may call this.
  void run(Index num_tasks, FunctionRef<void(Index task, int worker)> body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Number of threads that this process may use: its CPU affinity and cgroup quota, at least 1.
int usable_threads();
// What an option `threads` asks for: so many, or with 0 all that are usable.
int thread_count(Index asked);

}  // namespace zaya
