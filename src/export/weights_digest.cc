// SPDX-License-Identifier: Apache-2.0
#include "export/weights_digest.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/hash.h"
#include "base/thread_pool.h"
#include "checkpoint/index.h"

namespace zaya {

namespace {

// Hash of a parameter's values as f32.
Hash128 hash_of(const WeightSource& weights, const Param& param, std::vector<float>& values,
                const std::function<void(Index)>& done) {
  Hasher hasher;
  for_each_range(param.shape, [&](Index begin, Index end) {
    const Index count = param.count() / param.shape[0] * (end - begin);
    values.resize(static_cast<std::size_t>(count));
    std::vector<Index> dims(param.shape.dims().begin(), param.shape.dims().end());
    dims[0] = end - begin;
    std::byte* data = reinterpret_cast<std::byte*>(values.data());
    weights.read(param, begin, Tensor(data, DType::f32, Shape(dims)));
    hasher.add(data, values.size() * sizeof(float));
    done(count);
  });
  return hasher.finish();
}

}  // namespace

std::string weights_digest(const ModelOrigin& source, ThreadPool& pool,
                           const std::function<void(Index)>& observer) {
  ParamSet params;
  const Model model(source.config, params);
  source.weights->check(params);
  std::vector<const Param*> sorted;
  for (const Param& param : params.all()) sorted.push_back(&param);
  std::sort(sorted.begin(), sorted.end(),
            [](const Param* a, const Param* b) { return a->name < b->name; });
  std::vector<Hash128> hashes(sorted.size());
  std::vector<std::vector<float>> buffers(static_cast<std::size_t>(pool.num_threads()));
  std::mutex mutex;  // one call of the observer at a time
  pool.run(static_cast<Index>(sorted.size()), [&](Index i, int worker) {
    hashes[static_cast<std::size_t>(i)] =
        hash_of(*source.weights, *sorted[static_cast<std::size_t>(i)],
                buffers[static_cast<std::size_t>(worker)], [&](Index count) {
                  if (!observer) return;
                  const std::lock_guard lock(mutex);
                  observer(count);
                });
  });
  Hasher hasher;
  hasher.add("zaya-weights 1\n");
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    hasher.add(fmt::format("{} [{}] {}\n", json_quote(sorted[i]->name),
                           fmt::join(sorted[i]->shape.dims(), ","), to_hex(hashes[i])));
  }
  return checksum_text(hasher.finish());
}

}  // namespace zaya
