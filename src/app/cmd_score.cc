// SPDX-License-Identifier: Apache-2.0
//
// `zaya score`: loss and log-probabilities of given tokens, for other programs to compare with.
#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "app/commands.h"
#include "app/model_options.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "eval/score.h"
#include "text/tokenizer.h"

namespace zaya {

namespace {

struct Inputs {
  std::string inputs, text, text_file;
  bool given_text = false;
};

std::int32_t checked_id(std::int64_t id, const std::string& where) {
  if (id < INT32_MIN || id > INT32_MAX) {
    throw Error{ErrorKind::usage, fmt::format("{}: token id {} is out of range", where, id)};
  }
  return static_cast<std::int32_t>(id);
}

// A [B, S] list of integers under `key`, or nothing.
std::optional<std::vector<std::int64_t>> read_rows(const Json& file, const char* key,
                                                   ScoreInput& input, const std::string& where) {
  const Json* rows = file.find(key);
  if (rows == nullptr) return std::nullopt;
  std::vector<std::int64_t> values;
  for (const Json& row : rows->items()) {
    const Index length = static_cast<Index>(row.items().size());
    if (input.length == 0) input.length = length;
    if (length != input.length || length == 0) {
      throw Error{ErrorKind::usage,
                  fmt::format("{}: {}: rows must have one length, found {} and {}; pad them and "
                              "give attention_mask",
                              where, key, input.length, length)};
    }
    for (const Json& item : row.items()) values.push_back(item.as_integer());
  }
  const Index count = static_cast<Index>(rows->items().size());
  if (input.rows == 0) input.rows = count;
  if (count != input.rows) {
    throw Error{ErrorKind::usage,
                fmt::format("{}: {} has {} rows, input_ids has {}", where, key, count, input.rows)};
  }
  return values;
}

std::optional<std::vector<std::int64_t>> read_tensor(const SafetensorsFile& file, const char* key,
                                                     ScoreInput& input) {
  if (file.header().find(key) == nullptr) return std::nullopt;
  const StoredTensor stored = file.tensor(key);
  if (stored.spec.type != StorageType::i64 || stored.spec.shape.size() != 2) {
    throw Error{ErrorKind::usage, fmt::format("{}: {} is {}; I64 [B, S] is expected", file.path(),
                                              key, describe(stored.spec))};
  }
  const Index rows = static_cast<Index>(stored.spec.shape[0]);
  const Index length = static_cast<Index>(stored.spec.shape[1]);
  if (input.rows == 0) input.rows = rows;
  if (input.length == 0) input.length = length;
  if (rows != input.rows || length != input.length) {
    throw Error{ErrorKind::usage,
                fmt::format("{}: {} is {}; input_ids is [{}, {}]", file.path(), key,
                            describe(stored.spec), input.rows, input.length)};
  }
  std::vector<std::int64_t> values(stored.bytes.size() / 8);
  std::memcpy(values.data(), stored.bytes.data(), stored.bytes.size());
  return values;
}

ScoreInput assemble(ScoreInput input, const std::optional<std::vector<std::int64_t>>& ids,
                    const std::optional<std::vector<std::int64_t>>& mask,
                    std::optional<std::vector<std::int64_t>> labels, const std::string& where) {
  if (!ids || ids->empty()) {
    throw Error{ErrorKind::usage, fmt::format("{}: input_ids is missing or empty", where)};
  }
  for (const std::int64_t id : *ids) input.ids.push_back(checked_id(id, where));
  if (mask) {
    for (const std::int64_t m : *mask) input.mask.push_back(m != 0);
  }
  if (labels) {
    for (const std::int64_t label : *labels) static_cast<void>(checked_id(label, where));
    input.labels = std::move(*labels);
  }
  return input;
}

ScoreInput read_input_file(const std::string& path) {
  ScoreInput input;
  if (path.ends_with(".safetensors")) {
    const SafetensorsFile file(path);
    const auto ids = read_tensor(file, "input_ids", input);
    const auto mask = read_tensor(file, "attention_mask", input);
    auto labels = read_tensor(file, "labels", input);
    return assemble(input, ids, mask, std::move(labels), path);
  }
  const Json file = Json::parse(read_file(path), path);
  try {
    const auto ids = read_rows(file, "input_ids", input, path);
    const auto mask = read_rows(file, "attention_mask", input, path);
    auto labels = read_rows(file, "labels", input, path);
    return assemble(input, ids, mask, std::move(labels), path);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage) throw;
    throw Error{ErrorKind::usage, fmt::format("{}: {}", path, error.message())};
  }
}

ScoreInput read_text(const Inputs& options, const std::string& tokenizer_path) {
  if (tokenizer_path.empty()) {
    throw Error{ErrorKind::usage,
                "--text needs a tokenizer.json in the model's folder; give --inputs instead"};
  }
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_path);
  ScoreInput input;
  input.ids =
      tokenizer.encode(options.text_file.empty() ? options.text : read_file(options.text_file));
  if (input.ids.empty()) throw Error{ErrorKind::usage, "the text has no tokens"};
  input.rows = 1;
  input.length = static_cast<Index>(input.ids.size());
  return input;
}

Json to_json(const ScoreResult& result) {
  Json out = Json::object();
  out.set("loss", result.loss);
  out.set("num_tokens", result.num_tokens);
  Json rows = Json::array();
  for (const std::vector<double>& row : result.token_logprobs) {
    Json list = Json::array();
    for (const double x : row) list.push(std::isnan(x) ? Json() : Json(x));
    rows.push(std::move(list));
  }
  out.set("token_logprobs", std::move(rows));
  return out;
}

std::span<const std::byte> bytes_of(const auto& values) {
  return std::as_bytes(std::span(values.data(), values.size()));
}

void write_dump(const std::string& path, const std::vector<NamedOutput>& dump) {
  std::vector<StoredTensor> tensors;
  for (const NamedOutput& output : dump) {
    const bool is_integer = !output.integers.empty();
    TensorSpec spec{output.name,
                    is_integer ? StorageType::i64 : StorageType::f32,
                    {output.shape.begin(), output.shape.end()}};
    tensors.push_back({spec, is_integer ? bytes_of(output.integers) : bytes_of(output.values)});
  }
  write_safetensors(path, tensors, {{"format", "pt"}});
}

void write_gradients(const std::string& path, const ParamSet& params, const Gradients& gradients) {
  std::vector<StoredTensor> tensors;
  for (const Param& param : params.all()) {
    if (param.rule.role == OptimizerRole::none) continue;
    const Tensor gradient = gradients.of(param);
    tensors.push_back({{param.name, StorageType::f32, storage_shape(param.shape)},
                       {gradient.data(), static_cast<std::size_t>(gradient.num_bytes())}});
  }
  write_safetensors(path, tensors, {{"format", "pt"}});
}

}  // namespace

int command_score(Arguments arguments) {
  ModelOptions options;
  Inputs inputs;
  std::string output, dump, dump_gradients;
  Command command("score", "Loss and log-probabilities of given tokens.",
                  "zaya score --model runs/quickstart --text \"In the beginning\"");
  options.declare(command, "f32");
  command.option("--inputs", inputs.inputs,
                 "JSON or .safetensors with input_ids [B, S], perhaps attention_mask and labels.");
  command.option("--text", inputs.text, "A text, encoded with the model's tokenizer.");
  command.option("--text-file", inputs.text_file, "A file with the text.");
  command.option("--output", output, "Writes the result here instead of to stdout.");
  command.option("--dump", dump, "Writes logits, hidden states and routes as .safetensors.");
  command.option("--dump-gradients", dump_gradients, "Writes the gradient of the mean loss.");
  if (!command.parse(arguments)) return 0;
  const bool has_text = command.given("--text") || command.given("--text-file");
  if (has_text == command.given("--inputs") ||
      (command.given("--text") && command.given("--text-file"))) {
    throw Error{ErrorKind::usage, "zaya score: give one of --inputs, --text, --text-file"};
  }
  ScoreInput input;
  if (!has_text) input = read_input_file(inputs.inputs);
  OpenOptions open_options;
  open_options.is_for_training = !dump_gradients.empty();
  open_options.max_positions = std::max<Index>(input.length, 1);
  if (has_text) open_options.max_positions = 0;
  const RunningModel running = start_model(options, open_options);
  if (has_text) input = read_text(inputs, running.open.tokenizer_path);

  ParamSet& params = *running.open.params;
  std::optional<Arena> gradient_arena;
  Gradients gradients;
  if (!dump_gradients.empty()) {
    gradient_arena.emplace("gradients", params.flat_count() * 4 + 64);
    gradients = Gradients(*gradient_arena, params, running.backend->stream());
  }
  ScoreOptions score_options;
  score_options.wants_dump = !dump.empty();
  score_options.skip_is_identity = running.skip_is_identity;
  const ScoreResult result = score(*running.open.model, *running.backend, input, score_options,
                                   dump_gradients.empty() ? nullptr : &gradients);
  if (!dump.empty()) write_dump(dump, result.dump);
  if (!dump_gradients.empty()) write_gradients(dump_gradients, params, gradients);
  const std::string text = to_json(result).dump() + "\n";
  if (output.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    write_file_atomically(output, text);
  }
  return 0;
}

}  // namespace zaya
