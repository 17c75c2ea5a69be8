// SPDX-License-Identifier: Apache-2.0
#include "train/step.h"

#include <algorithm>

#include "base/stop.h"

namespace zaya {

namespace {

std::vector<Gradients> make_buffers(Arena& run, const ParamSet& params, DType stream, Index lanes) {
  const Arena::Scope scope(run, "gradients");
  std::vector<Gradients> buffers;
  for (Index i = 0; i < LaneSum::num_buffers(lanes); ++i) buffers.emplace_back(run, params, stream);
  return buffers;
}

std::vector<Tensor> flats(const std::vector<Gradients>& buffers) {
  std::vector<Tensor> tensors;
  for (const Gradients& buffer : buffers) tensors.push_back(buffer.flat());
  return tensors;
}

}  // namespace

StepGradient::StepGradient(const Model& model, const ParamSet& params, const Backend& backend,
                           Index lanes, bool recomputes, Arena& run, Arena& saved, Arena& scratch)
    : model_(model),
      backend_(backend),
      lanes_(lanes),
      recomputes_(recomputes),
      saved_(saved),
      scratch_(scratch),
      gradients_(make_buffers(run, params, backend.stream(), lanes)),
      sum_(lanes, flats(gradients_)),
      pass_loads_(run.take(DType::i64,
                           {model.config().num_hidden_layers, model.config().num_experts + 1})) {
  loads_.assign(pass_loads_.dim(0), std::vector<std::int64_t>(pass_loads_.dim(1), 0));
}

void StepGradient::add_loads() {
  if (pass_loads_.data() == nullptr) return;  // a dry run has none
  const auto pass_loads = pass_loads_.as<std::int64_t, 2>();
  for (Index layer = 0; layer < pass_loads.dim(0); ++layer) {
    for (Index e = 0; e < pass_loads.dim(1); ++e) loads_[layer][e] += pass_loads[layer][e];
  }
}

Tensor StepGradient::begin_lane() {
  const Profile::Scope timed(profile_, "clearing gradients");
  return sum_.begin_lane(backend_);
}

const MicroBatch& StepGradient::timed_next(FunctionRef<const MicroBatch&()> next) {
  const Profile::Scope timed(profile_, "waiting for data");
  return next();
}

StepResult StepGradient::run(Index num_micro_batches, FunctionRef<const MicroBatch&()> next) {
  ZAYA_CHECK(num_micro_batches % lanes_ == 0);
  StepResult result;
  for (std::vector<std::int64_t>& layer : loads_) std::fill(layer.begin(), layer.end(), 0);
  for (Index lane = 0; lane < lanes_; ++lane) {
    const Tensor buffer = begin_lane();
    const auto gradients =
        std::find_if(gradients_.begin(), gradients_.end(),
                     [&](const Gradients& g) { return g.flat().data() == buffer.data(); });
    for (Index i = 0; i < num_micro_batches / lanes_; ++i) {
      if (stop_signal() != 0) {
        sum_.abandon();
        result.is_abandoned = true;
        return result;
      }
      const MicroBatch& micro = timed_next(next);
      Pass pass{backend_, saved_, scratch_, micro.batch, pass_loads_};
      pass.gradients = &*gradients;
      pass.recomputes = recomputes_;
      pass.profile = profile_;
      pass.skip_is_identity = model_.config().skip_output == "identity";
      const Tensor logprobs = watch_ ? watch_->logprobs(micro.batch.num_tokens()) : Tensor{};
      result.loss_sum += model_.run(pass, 1, logprobs, activations_);
      if (watch_ && micro.rows != nullptr) watch_->add(*micro.rows);
      result.num_targets += micro.num_targets;
      add_loads();
    }
    const Profile::Scope timed(profile_, "sum over lanes");
    sum_.end_lane(backend_);
  }
  result.gradient = sum_.finish(backend_);
  return result;
}

}  // namespace zaya
