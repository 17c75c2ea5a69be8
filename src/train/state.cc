// SPDX-License-Identifier: Apache-2.0
#include "train/state.h"

namespace zaya {

Json TrainState::to_json() const {
  Json out = Json::object();
  out.set("step", step);
  out.set("tokens", tokens);
  out.set("skipped_tokens", skipped_tokens);
  out.set("skipped_in_a_row", skipped_in_a_row);
  out.set("update", update);
  out.set("phase", phase);
  out.set("phase_tokens", phase_tokens);
  out.set("phase_samples", phase_samples);
  return out;
}

TrainState TrainState::from_json(const Json& json) {
  TrainState s;
  s.step = json.at("step").as_integer();
  s.tokens = json.at("tokens").as_integer();
  s.skipped_tokens = json.at("skipped_tokens").as_integer();
  s.skipped_in_a_row = json.at("skipped_in_a_row").as_integer();
  s.update = json.at("update").as_integer();
  s.phase = json.at("phase").as_integer();
  s.phase_tokens = json.at("phase_tokens").as_integer();
  s.phase_samples = json.at("phase_samples").as_integer();
  return s;
}

}  // namespace zaya
