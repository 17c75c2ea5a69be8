// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

namespace zaya {

TEST_CASE("every task runs once, whatever the number of threads") {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (const Index tasks : {0, 1, 2, 100}) {
      std::vector<int> runs(tasks, 0);
      pool.run(tasks, [&](Index task, int worker) {
        CHECK(worker < threads);
        ++runs[task];
      });
      for (const int count : runs) CHECK(count == 1);
    }
  }
}

TEST_CASE("nested calls run on the same worker") {
  ThreadPool pool(3);
  std::vector<int> runs(8 * 8, 0);
  pool.run(8, [&](Index outer, int worker) {
    pool.run(8, [&](Index inner, int inner_worker) {
      CHECK(inner_worker == worker);
      ++runs[outer * 8 + inner];
    });
  });
  for (const int count : runs) CHECK(count == 1);
}

TEST_CASE("an exception of a task reaches the caller and the pool stays usable") {
  ThreadPool pool(2);
  CHECK_THROWS_AS(pool.run(50,
                           [](Index task, int) {
                             if (task == 7) throw std::runtime_error("seven");
                           }),
                  std::runtime_error);
  int runs = 0;
  pool.run(1, [&](Index, int) { ++runs; });
  CHECK(runs == 1);
}

}  // namespace zaya
