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

// Some 40 microseconds.
constexpr int kSpins = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

struct ThreadPool::State {
  using Body = FunctionRef<void(Index, int)>;

  // Written by run() before a generation begins, read by its workers.
  const Body* body = nullptr;
  Index num_tasks = 0;
  std::atomic<Index> next{0};
  // Changes under the mutex, so that nobody falls asleep over it; read without by who spins.
  std::atomic<std::uint64_t> generation{0};
  std::atomic<bool> stop{false};
  std::atomic<int> busy{0};  // workers that have not finished the generation
  int num_spins = 0;

  std::mutex mutex;  // guards num_sleeping, error
  std::condition_variable wake, done;
  int num_sleeping = 0;
  std::exception_ptr error;
  std::vector<std::thread> threads;

  // Looks for a moment whether `holds` comes true: kernels follow each other within microseconds,
  // and waking a thread takes longer than many of them.
  template <class Condition>
  bool spin(Condition holds) const {
    for (int i = 0; i < num_spins; ++i) {
      if (holds()) return true;
      pause();
    }
    return holds();
  }

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

  void wait_for_work(std::uint64_t seen) {
    const auto has_work = [&] { return generation.load() != seen || stop.load(); };
    if (spin(has_work)) return;
    std::unique_lock lock(mutex);
    ++num_sleeping;
    wake.wait(lock, has_work);
    --num_sleeping;
  }

  void serve(int worker) {
    t_pool = this;
    t_worker = worker;
    std::uint64_t seen = 0;
    while (true) {
      wait_for_work(seen);
      if (stop.load()) return;
      seen = generation.load();
      drain(*body, num_tasks, worker);
      if (busy.fetch_sub(1) == 1) {
        // With the lock: the caller is either before its last look or asleep.
        const std::lock_guard lock(mutex);
        done.notify_one();
      }
    }
  }

  void begin(const Body& work, Index tasks) {
    const std::lock_guard lock(mutex);
    body = &work;
    num_tasks = tasks;
    next.store(0);
    busy.store(static_cast<int>(threads.size()));
    error = nullptr;
    generation.fetch_add(1);
    if (num_sleeping > 0) wake.notify_all();
  }

  void wait_for_workers() {
    const auto is_done = [&] { return busy.load() == 0; };
    if (spin(is_done)) return;
    std::unique_lock lock(mutex);
    done.wait(lock, is_done);
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  ZAYA_CHECK(num_threads >= 1);
  // With more threads than processors who spins would only keep others from working.
  if (num_threads <= usable_threads()) state_->num_spins = kSpins;
  for (int i = 1; i < num_threads; ++i) {
    state_->threads.emplace_back([this, i] { state_->serve(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop.store(true);
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
  s.begin(body, num_tasks);
  // The caller is worker 0 while it drains, so that nested calls stay serial.
  const void* outer_pool = t_pool;
  const int outer_worker = t_worker;
  t_pool = &s;
  t_worker = 0;
  s.drain(body, num_tasks, 0);
  t_pool = outer_pool;
  t_worker = outer_worker;
  s.wait_for_workers();
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
