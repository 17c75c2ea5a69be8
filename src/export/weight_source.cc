// SPDX-License-Identifier: Apache-2.0
#include "export/weight_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/header_scanner.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/reader.h"
#include "export/hf_names.h"
#include "model/model.h"

namespace zaya {

namespace {

constexpr Index kRangeElements = Index{1} << 22;
constexpr std::size_t kListedProblems = 16;

// Elements of one entry of the first dim.
Index entry_elements(const Shape& shape) {
  return shape.count() / std::max<Index>(shape.rank() == 0 ? 1 : shape[0], 1);
}

// Collects what is wrong with a model's tensors, for one message.
class Problems {
 public:
  explicit Problems(std::string where) : where_(std::move(where)) {}

  // What stands for a wanted tensor: null when nothing does.
  void compare(const std::string& name, const Shape& wanted, const TensorSpec* found) {
    if (found == nullptr) {
      add(name, fmt::format("expected {}, missing", to_string(wanted)));
    } else if (found->shape != storage_shape(wanted)) {
      add(name, fmt::format("expected {}, found {}", to_string(wanted), describe(*found)));
    } else if (!is_convertible(found->type, DType::f32)) {
      add(name, fmt::format("expected floating-point values, found {}", describe(*found)));
    }
  }
  void add(const std::string& name, const std::string& problem) {
    if (++count_ <= kListedProblems) {
      text_ += fmt::format("{}{} ({})", text_.empty() ? "" : "; ", shown_name(name), problem);
    }
  }
  void raise() const {
    if (count_ == 0) return;
    std::string text = fmt::format("{}: {} tensor{} wrong for this model: {}", where_, count_,
                                   count_ == 1 ? " is" : "s are", text_);
    if (count_ > kListedProblems) text += fmt::format("; and {} more", count_ - kListedProblems);
    throw Error{ErrorKind::damaged, text};
  }

 private:
  std::string where_, text_;
  std::size_t count_ = 0;
};

class CheckpointWeights : public WeightSource {
 public:
  explicit CheckpointWeights(const std::string& path) : reader_(path) {}
  const CheckpointReader& reader() const { return reader_; }

  // A checkpoint holds more than weights: only what is missing or wrong counts.
  void check(const ParamSet& params) const override {
    Problems problems(reader_.path());
    for (const Param& param : params.all()) {
      const IndexTensor* found = reader_.index().find(param.name);
      if (found != nullptr && found->spec.shape == storage_shape(param.shape) &&
          found->spec.type != StorageType::f32) {
        problems.add(param.name, "expected F32, found " + describe(found->spec));
      } else {
        problems.compare(param.name, param.shape, found == nullptr ? nullptr : &found->spec);
      }
    }
    problems.raise();
  }
  void read(const Param& param, Index begin, Tensor out) const override {
    reader_.read_rows(param.name, begin, out);
  }

 private:
  CheckpointReader reader_;
};

class FolderWeights : public WeightSource {
 public:
  FolderWeights(const std::string& path, const HfConfig& config) : folder_(path), config_(config) {
    // Nothing of the stated size is made before the files are seen to be of that order.
    const Index blocks = config.model.num_hidden_layers;
    const Index num_tensors = static_cast<Index>(folder_.names().size());
    if (num_tensors < blocks) {
      throw Error{
          ErrorKind::damaged,
          fmt::format("{}: config.json states {} blocks, but the files hold only {} tensors", path,
                      blocks, num_tensors)};
    }
  }

  void check(const ParamSet& params) const override {
    Problems problems(folder_.path());
    std::vector<std::string> used;
    for (const Param& param : params.all()) {
      for (const FolderTensor& wanted : tensors_of(param)) {
        const std::optional<StoredTensor> found = folder_.find(wanted.name);
        problems.compare(wanted.name, wanted.shape, found ? &found->spec : nullptr);
        used.push_back(wanted.name);
      }
    }
    std::sort(used.begin(), used.end());
    for (const std::string& name : folder_.names()) {
      // A tied head may be stored all the same.
      if (name == "lm_head.weight" && config_.model.tie_word_embeddings) continue;
      if (!std::binary_search(used.begin(), used.end(), name)) {
        problems.add(name, "not part of the model");
      }
    }
    problems.raise();
  }

  void read(const Param& param, Index begin, Tensor out) const override {
    for (const FolderTensor& wanted : tensors_of(param)) {
      const StoredTensor stored = folder_.tensor(wanted.name);
      if (wanted.entry >= 0) {
        const Index at = wanted.entry - begin;
        if (at >= 0 && at < out.dim(0)) convert_elements(stored.spec.type, stored.bytes, out[at]);
        continue;
      }
      const std::size_t entry_bytes =
          static_cast<std::size_t>(entry_elements(param.shape)) * bits_of(stored.spec.type) / 8;
      convert_elements(stored.spec.type,
                       stored.bytes.subspan(static_cast<std::size_t>(begin) * entry_bytes,
                                            static_cast<std::size_t>(out.dim(0)) * entry_bytes),
                       out);
    }
  }

  std::optional<Tensor> mapped(const Param& param, DType dtype) const override {
    const std::vector<FolderTensor> tensors = tensors_of(param);
    if (tensors.size() != 1 || tensors[0].entry >= 0) return std::nullopt;
    const StoredTensor stored = folder_.tensor(tensors[0].name);
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(stored.bytes.data());
    if (dtype_of_storage(stored.spec.type) != dtype ||
        address % static_cast<std::uintptr_t>(size_of(dtype)) != 0) {
      return std::nullopt;
    }
    // Whoever gets it only reads; the map is read-only all the same.
    return Tensor(const_cast<std::byte*>(stored.bytes.data()), dtype, param.shape);
  }

  bool is_stored_as_bf16(const Param& param) const override {
    for (const FolderTensor& wanted : tensors_of(param)) {
      if (folder_.tensor(wanted.name).spec.type != StorageType::bf16) return false;
    }
    return true;
  }

 private:
  std::vector<FolderTensor> tensors_of(const Param& param) const {
    return stored_tensors(param, config_.layout, config_.model);
  }

  HfFolder folder_;
  HfConfig config_;
};

class FreshWeights : public WeightSource {
 public:
  FreshWeights(const ModelConfig& config, std::uint64_t seed, ThreadPool& pool)
      : model_(config, params_),
        // Balancing biases alone are bound: they have start values of their own.
        buffers_("balancing biases",
                 config.num_hidden_layers * ((config.num_experts + 1) * 4 + 64)),
        seed_(seed),
        pool_(pool) {
    for (Param& param : params_.all()) {
      if (param.rule.role == OptimizerRole::none) {
        param.weight = buffers_.take(DType::f32, param.shape);
      }
    }
    model_.reset_balancing();
    for (const Param& param : params_.all()) by_name_.push_back(&param);
    std::sort(by_name_.begin(), by_name_.end(),
              [](const Param* a, const Param* b) { return a->name < b->name; });
  }

  void check(const ParamSet& params) const override {
    Problems problems("fresh weights");
    for (const Param& param : params.all()) {
      const Param* own = find(param.name);
      if (own == nullptr || own->shape != param.shape) {
        problems.add(param.name, "the model has another shape");
      }
    }
    problems.raise();
  }

  void read(const Param& param, Index begin, Tensor out) const override {
    const Index first = begin * entry_elements(param.shape), count = out.count();
    const auto values = out.as<float, 1>();
    if (param.rule.role == OptimizerRole::none) {
      const auto biases = find(param.name)->weight.as<float, 1>();
      std::copy_n(&biases[first], count, &values[0]);
      return;
    }
    constexpr Index kTask = Index{1} << 16;
    pool_.run((count + kTask - 1) / kTask, [&](Index task, int) {
      const Index at = task * kTask, size = std::min(kTask, count - at);
      initial_values(param, seed_, first + at, {&values[at], static_cast<std::size_t>(size)});
    });
  }

 private:
  const Param* find(std::string_view name) const {
    const auto at = std::lower_bound(
        by_name_.begin(), by_name_.end(), name,
        [](const Param* param, std::string_view wanted) { return param->name < wanted; });
    return at == by_name_.end() || (*at)->name != name ? nullptr : *at;
  }

  ParamSet params_;
  Model model_;
  Arena buffers_;
  std::vector<const Param*> by_name_;
  std::uint64_t seed_;
  ThreadPool& pool_;
};

}  // namespace

std::optional<Tensor> WeightSource::mapped(const Param&, DType) const { return std::nullopt; }

bool WeightSource::is_stored_as_bf16(const Param&) const { return false; }

std::unique_ptr<WeightSource> checkpoint_weights(const std::string& step_folder, Json& run_state) {
  auto weights = std::make_unique<CheckpointWeights>(step_folder);
  run_state = weights->reader().run_state();
  return weights;
}

std::unique_ptr<WeightSource> folder_weights(const std::string& path, const HfConfig& config) {
  return std::make_unique<FolderWeights>(path, config);
}

std::unique_ptr<WeightSource> fresh_weights(const ModelConfig& config, std::uint64_t seed,
                                            ThreadPool& pool) {
  return std::make_unique<FreshWeights>(config, seed, pool);
}

void for_each_range(const Shape& shape, FunctionRef<void(Index begin, Index end)> use) {
  const Index entries = shape.rank() == 0 ? 1 : shape[0];
  const Index step = std::max<Index>(1, kRangeElements / std::max<Index>(entry_elements(shape), 1));
  for (Index begin = 0; begin < entries; begin += step) {
    use(begin, std::min(entries, begin + step));
  }
}

Index largest_range(const Shape& shape) {
  Index most = 0;
  for_each_range(shape, [&](Index begin, Index end) {
    most = std::max(most, (end - begin) * entry_elements(shape));
  });
  return most;
}

}  // namespace zaya
