// SPDX-License-Identifier: Apache-2.0
#include "train/metric_fields.h"

namespace zaya {

namespace {

using M = StepMetrics;
using Value = std::optional<double>;

Value number(Index x) { return static_cast<double>(x); }

constexpr MetricField kFields[] = {
    {"step", "train/step", "zaya_steps_total", "Steps done, skipped ones included.", true,
     [](const M& m) { return number(m.step); }},
    {"tokens", "train/tokens", "zaya_tokens_total", "Target tokens trained on.", true,
     [](const M& m) { return number(m.tokens); }},
    {"loss", "train/loss", "zaya_loss", "Mean loss of the last step's targets, in nats.", false,
     [](const M& m) { return Value(m.loss); }},
    {"grad_norm", "train/grad_norm", "zaya_grad_norm",
     "Norm of the last step's gradient before clipping.", false,
     [](const M& m) { return Value(m.grad_norm); }},
    {"learning_rate", "train/learning_rate", "zaya_learning_rate",
     "Learning rate of the last step.", false, [](const M& m) { return Value(m.learning_rate); }},
    {"batch_tokens", "train/batch_tokens", "zaya_batch_tokens", "Target tokens of the last step.",
     false, [](const M& m) { return number(m.batch_tokens); }},
    {"sequence_length", "train/sequence_length", "zaya_sequence_length_tokens",
     "Tokens of a row of the last step.", false,
     [](const M& m) { return number(m.sequence_length); }},
    {"step_seconds", "train/step_seconds", "zaya_step_seconds", "Duration of the last step.", false,
     [](const M& m) { return Value(m.step_seconds); }},
    {"tokens_per_second", "train/tokens_per_second", "zaya_tokens_per_second",
     "Target tokens of the last step by its duration.", false,
     [](const M& m) { return Value(m.tokens_per_second); }},
    {"flops_per_second", "train/flops_per_second", "zaya_flops_per_second",
     "Operations in products of the last step by its duration.", false,
     [](const M& m) { return Value(m.flops_per_second); }},
    {"peak_fraction", "train/peak_fraction", "zaya_peak_fraction",
     "Share of the measured peak of this machine, 0 to 1.", false,
     [](const M& m) { return m.peak_fraction; }},
    {"expert_load_entropy", "train/expert_load_entropy", "zaya_expert_load_entropy",
     "Entropy of the expert loads by its largest value, mean over layers, 0 to 1.", false,
     [](const M& m) { return Value(m.expert_load_entropy); }},
    {"expert_load_max", "train/expert_load_max", "zaya_expert_load_max",
     "Largest expert load over the mean load in the worst layer.", false,
     [](const M& m) { return Value(m.expert_load_max); }},
    {"skipped_tokens", "train/skipped_tokens", "zaya_skipped_tokens_total",
     "Target tokens of skipped steps.", true, [](const M& m) { return number(m.skipped_tokens); }},
    {"is_skipped", "train/is_skipped", "zaya_is_skipped",
     "1 when the last step was skipped because its loss or gradient was not finite.", false,
     [](const M& m) { return number(m.is_skipped ? 1 : 0); }},
    {"data_seconds", "train/data_seconds", "zaya_data_seconds",
     "Time that the last step waited for data.", false,
     [](const M& m) { return Value(m.data_seconds); }},
    {"checkpoint_seconds", "train/checkpoint_seconds", "zaya_checkpoint_seconds",
     "Time that saving blocked the last step.", false,
     [](const M& m) { return Value(m.checkpoint_seconds); }},
    {"phase", "train/phase", "zaya_phase", "Number of the phase of the last step, from 0.", false,
     [](const M& m) { return number(m.phase); }},
    {"validation_loss", "validation/loss", "zaya_validation_loss",
     "Mean held-out loss when it was last measured, in nats.", false,
     [](const M& m) { return m.validation_loss; }},
};

}  // namespace

std::span<const MetricField> metric_fields() { return kFields; }

}  // namespace zaya
