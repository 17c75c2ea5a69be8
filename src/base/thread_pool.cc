// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"

namespace zaya {

namespace {

// Which worker of which pool this thread is; nested calls run serially on that worker.
thread_local const void* t_pool = nullptr;
thread_local int t_worker = 0;

}  // namespace

struct ThreadPool::State {
  using Body = FunctionRef<void(Index, int)>;

  std::mutex mutex;  // guards generation, body, num_tasks, busy, stop, error
  std::condition_variable wake, done;
  std::uint64_t generation = 0;
  const Body* body = nullptr;
  Index num_tasks = 0;
  std::atomic<Index> next{0};
  int busy = 0;
  bool stop = false;
  std::exception_ptr error;
  std::vector<std::thread> threads;

  void drain(const Body& work, Index tasks, int worker) {
    for (Index task = next.fetch_add(1); task < tasks; task = next.fetch_add(1)) {
      try {
        work(task, worker);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next.store(tasks);
      }
    }
  }

  void serve(int worker) {
    t_pool = this;
    t_worker = worker;
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return stop || generation != seen; });
      if (stop) return;
      seen = generation;
      const Body* work = body;
      const Index tasks = num_tasks;
      lock.unlock();
      drain(*work, tasks, worker);
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  ZAYA_CHECK(num_threads >= 1);
  for (int i = 1; i < num_threads; ++i) {
    state_->threads.emplace_back([this, i] { state_->serve(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::run(Index num_tasks, FunctionRef<void(Index, int)> body) {
  State& s = *state_;
  if (num_tasks <= 0) return;
  if (t_pool == &s || s.threads.empty() || num_tasks == 1) {
    const int worker = t_pool == &s ? t_worker : 0;
    for (Index task = 0; task < num_tasks; ++task) body(task, worker);
    return;
  }
  {
    std::lock_guard lock(s.mutex);
    s.body = &body;
    s.num_tasks = num_tasks;
    s.next.store(0);
    s.busy = static_cast<int>(s.threads.size());
    s.error = nullptr;
    ++s.generation;
  }
  s.wake.notify_all();
  // The caller is worker 0 while it drains, so that nested calls stay serial.
  const void* outer_pool = t_pool;
  const int outer_worker = t_worker;
  t_pool = &s;
  t_worker = 0;
  s.drain(body, num_tasks, 0);
  t_pool = outer_pool;
  t_worker = outer_worker;
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.busy == 0; });
  if (s.error) std::rethrow_exception(s.error);
}

int usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = std::max(1, CPU_COUNT(&set));
  // cgroup v2: "max 100000" or "150000 100000" (quota and period in microseconds).
  std::ifstream quota_file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (quota_file >> quota >> period && quota != "max" && period > 0) {
    const double cores = std::ceil(std::atof(quota.c_str()) / period);
    if (cores >= 1) count = std::min(count, static_cast<int>(cores));
  }
  return count;
}

int thread_count(Index asked) { return asked > 0 ? static_cast<int>(asked) : usable_threads(); }

}  // namespace zaya
