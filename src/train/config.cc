// SPDX-License-Identifier: Apache-2.0
#include "train/config.h"

#include <fmt/core.h>

#include <functional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/toml.h"

namespace zaya {

namespace {

FieldList fields_of(RunOptions& c) {
  FieldList f;
  f.add("directory", c.directory, "Folder of the run: configuration, log, metrics, checkpoints.")
      .cosmetic();
  f.add("seed", c.seed, "Seed of initial weights and sample order.").range(0, 9e15);
  f.add("numerics", c.numerics, "Operands of matrix products; sums are f32 either way.")
      .choices({"f32", "bf16"});
  f.add("threads", c.threads, "Threads; 0: all that the process may use.")
      .range(0, 4096)
      .cosmetic();
  f.add("instruction_set", c.instruction_set, "Kernels to use; auto: the best that is there.")
      .choices({"auto", "avx512_bf16", "avx512", "avx2", "portable"})
      .cosmetic();
  f.add("recompute", c.recompute, "blocks: keep block inputs only and run blocks again backward.")
      .choices({"none", "blocks"})
      .cosmetic();
  f.add("stop_after_steps", c.stop_after_steps,
        "Stop and save after this step although the phases go on; 0: run to the end.")
      .range(0, 1e15)
      .cosmetic();
  f.add(
       "max_skipped_steps", c.max_skipped_steps,
       "Stop with exit code 5 after this many steps in a row whose loss or gradient is not finite.")
      .range(1, 1e9)
      .cosmetic();
  f.add("overwrite", c.overwrite, "Let --resume never replace an existing run.").cosmetic();
  f.add("fault_point", c.fault_point, "For tests: NAME=ACTION@COUNT, see base/fault_point.h.")
      .cosmetic();
  return f;
}

FieldList fields_of(ModelSource& c) {
  FieldList f;
  f.add("from", c.from, "Model folder to take shape and initial weights from.").cosmetic();
  return f;
}

FieldList fields_of(DataOptions& c) {
  FieldList f;
  f.add("tokenizer", c.tokenizer, "tokenizer.json that made the token files.").cosmetic();
  f.add("train", c.train, "Token files to train on: prefixes of .bin and .idx.").cosmetic();
  f.add("validation", c.validation, "Token files never trained on.").cosmetic();
  f.add("weights", c.weights, "Share of each training prefix; empty: by size.").range(0, 1e12);
  f.add("document_isolation", c.document_isolation,
        "Attention, convolutions and delayed values stay inside a document.");
  f.add("order", c.order, "Order of samples: by this project's rule or by Megatron's.")
      .choices({"shuffled", "megatron"});
  f.add("split", c.split,
        "With order megatron: shares such as [969, 30, 1]; training takes the sequences of the "
        "first share of each prefix. Empty: all.")
      .range(0, 1e12);
  return f;
}

FieldList fields_of(PhaseOptions& c) {
  FieldList f;
  f.add("tokens", c.tokens, "Target tokens of the phase.").range(1, 1e16);
  f.add("sequence_length", c.sequence_length, "Tokens of a row.").range(1, 1 << 24);
  f.add("batch_tokens", c.batch_tokens, "Positions of a step: rows times length.").range(1, 1e12);
  f.add("micro_batch_tokens", c.micro_batch_tokens,
        "Positions of one pass; 0: the whole step in one pass per lane.")
      .range(0, 1e12);
  f.add("learning_rate", c.learning_rate, "Peak of the phase; 0: optimizer.learning_rate.")
      .range(0, 100);
  f.add("warmup_tokens", c.warmup_tokens, "Linear rise from zero over these tokens.")
      .range(0, 1e16);
  f.add("schedule", c.schedule, "Shape after the rise.").choices({"cosine", "linear", "constant"});
  f.add("final_learning_rate_fraction", c.final_learning_rate_fraction,
        "Learning rate at the end of the phase as a share of its peak.")
      .range(0, 1);
  return f;
}

FieldList fields_of(ParallelOptions& c) {
  FieldList f;
  f.add("lanes", c.lanes,
        "Groups of micro-batches summed by a fixed tree; fixes the bits for any number of ranks.")
      .range(1, 1 << 20);
  return f;
}

FieldList fields_of(CheckpointOptions& c) {
  FieldList f;
  f.add("every_steps", c.every_steps, "Steps between checkpoints; 0: only at the end.")
      .range(0, 1e12)
      .cosmetic();
  f.add("keep", c.keep, "Newest checkpoints to keep.").range(1, 1e6).cosmetic();
  f.add("keep_every_steps", c.keep_every_steps, "Also keep every checkpoint at multiples of this.")
      .range(0, 1e12)
      .cosmetic();
  return f;
}

FieldList fields_of(MetricsOptions& c) {
  FieldList f;
  f.add("print_every_steps", c.print_every_steps, "Steps between lines on stderr.")
      .range(1, 1e9)
      .cosmetic();
  f.add("validate_every_steps", c.validate_every_steps,
        "Steps between held-out losses; 0: only at the end.")
      .range(0, 1e12)
      .cosmetic();
  f.add("validation_tokens", c.validation_tokens, "Held-out tokens to use; 0: all.")
      .range(0, 1e15)
      .cosmetic();
  f.add("sample_every_steps", c.sample_every_steps, "Steps between printed samples; 0: none.")
      .range(0, 1e12)
      .cosmetic();
  f.add("sample_prompt", c.sample_prompt, "Beginning of the printed sample; empty: end of text.")
      .cosmetic();
  f.add("sample_tokens", c.sample_tokens, "Length of the printed sample.").range(1, 1e6).cosmetic();
  f.add("spike_z_score", c.spike_z_score,
        "Warn, with the document that did most, of a loss so many deviations from what the steps "
        "before lead to; 0: never.")
      .range(0, 1e6)
      .cosmetic();
  f.add("tensorboard", c.tensorboard, "Write TensorBoard event files beside metrics.jsonl.")
      .cosmetic();
  f.add("port", c.port,
        "Serve the last step's figures to Prometheus at this port; 0: any free one, -1: do not.")
      .range(-1, 65535)
      .cosmetic();
  f.add("address", c.address, "Address of this machine to serve at; 0.0.0.0: all.").cosmetic();
  return f;
}

struct Section {
  std::string name;
  FieldList fields;
};

// Sections in the order of the file. [model] is two lists: its shape, and where it comes from.
std::vector<Section> sections_of(TrainConfig& c) {
  std::vector<Section> sections;
  sections.push_back({"run", fields_of(c.run)});
  sections.push_back({"model", fields_of(c.source)});
  sections.push_back({"model", list_fields(c.model)});
  sections.push_back({"data", fields_of(c.data)});
  sections.push_back({"optimizer", list_fields(c.optimizer)});
  for (PhaseOptions& phase : c.phases) sections.push_back({"phase", fields_of(phase)});
  sections.push_back({"parallel", fields_of(c.parallel)});
  sections.push_back({"checkpoint", fields_of(c.checkpoint)});
  sections.push_back({"metrics", fields_of(c.metrics)});
  return sections;
}

const std::vector<std::string>& section_names() {
  static const std::vector<std::string> kNames = {"run",   "model",    "data",       "optimizer",
                                                  "phase", "parallel", "checkpoint", "metrics"};
  return kNames;
}

struct Override {
  std::string section, key, value;
  Index phase = 0;
};

Override parse_override(const std::string& text) {
  const std::size_t equals = text.find('='), dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals) {
    throw Error{ErrorKind::usage,
                fmt::format("command line: {}: expected section.key=value", text)};
  }
  Override o{text.substr(0, dot), text.substr(dot + 1, equals - dot - 1), text.substr(equals + 1),
             0};
  if (o.section == "phase") {
    const std::size_t second = o.key.find('.');
    const std::string number = o.key.substr(0, second);
    if (second == std::string::npos || number.empty() ||
        number.find_first_not_of("0123456789") != std::string::npos || number.size() > 6) {
      throw Error{
          ErrorKind::usage,
          fmt::format("command line: {}: a phase is addressed by number: phase.0.tokens=...",
                      text)};
    }
    o.phase = std::stol(number);
    o.key.erase(0, second + 1);
  }
  return o;
}

// The value of [model] `key` in the file or the overrides, or "".
std::string model_text(const Json& file, const std::vector<Override>& overrides,
                       std::string_view key) {
  std::string text;
  if (const Json* model = file.find("model"); model != nullptr && model->is_object()) {
    if (const Json* value = model->find(key); value != nullptr && value->is_string()) {
      text = value->as_string();
    }
  }
  for (const Override& o : overrides) {
    if (o.section != "model" || o.key != key) continue;
    const Json value = toml_value_from_text(o.value);
    text = value.is_string() ? value.as_string() : o.value;
  }
  return text;
}

// Reads [model]: the keys of the source and of the shape share the section.
void read_model(const Json& object, const std::string& path, TrainConfig& config) {
  Json rest = Json::object();
  rest.line = object.line;
  const FieldList source = fields_of(config.source);
  for (const auto& [key, value] : object.members()) {
    if (const Field* field = source.find(key)) {
      field->set(value, fmt::format("{}:{}", path, value.line), "model." + key);
    } else {
      rest.set(key, value);
    }
  }
  list_fields(config.model).read(rest, path, "model");
}

void read_phases(const Json& list, const std::string& path, TrainConfig& config) {
  if (!list.is_array()) {
    throw Error{ErrorKind::usage, fmt::format("{}:{}: write phases as [[phase]]", path, list.line)};
  }
  for (const Json& item : list.items()) {
    PhaseOptions& phase = config.phases.emplace_back();
    fields_of(phase).read(item, path, "phase");
  }
}

void read_file_sections(const Json& file, const std::string& path, TrainConfig& config) {
  for (const auto& [name, value] : file.members()) {
    if (name == "phase") {
      read_phases(value, path, config);
      continue;
    }
    if (name == "model") {
      if (!value.is_object()) {
        throw Error{ErrorKind::usage, fmt::format("{}:{}: write [model]", path, value.line)};
      }
      read_model(value, path, config);
      continue;
    }
    bool is_known = false;
    for (const Section& section : sections_of(config)) {
      if (section.name != name || name == "phase") continue;
      section.fields.read(value, path, name);
      is_known = true;
    }
    if (!is_known) {
      throw Error{ErrorKind::usage, fmt::format("{}:{}: unknown section [{}]{}", path, value.line,
                                                name, did_you_mean(name, section_names()))};
    }
  }
}

void apply(const Override& o, TrainConfig& config) {
  if (o.section == "phase") {
    if (o.phase > static_cast<Index>(config.phases.size())) {
      throw Error{ErrorKind::usage, fmt::format("command line: phase.{} but there are {} phases",
                                                o.phase, config.phases.size())};
    }
    if (o.phase == static_cast<Index>(config.phases.size())) config.phases.emplace_back();
    fields_of(config.phases[o.phase]).override_from_text(o.key, o.value, "phase");
    return;
  }
  if (o.section == "model" && fields_of(config.source).find(o.key) != nullptr) {
    fields_of(config.source).override_from_text(o.key, o.value, "model");
    return;
  }
  for (const Section& section : sections_of(config)) {
    if (section.name == o.section && !(o.section == "model" && section.fields.find("from"))) {
      section.fields.override_from_text(o.key, o.value, o.section);
      return;
    }
  }
  throw Error{ErrorKind::usage, fmt::format("command line: unknown section {}{}", o.section,
                                            did_you_mean(o.section, section_names()))};
}

}  // namespace

TrainConfig read_train_config(const std::string& path, std::span<const std::string> overrides,
                              ShapeOfFolder shape_of) {
  const Json file = parse_toml(read_file(path), path);
  std::vector<Override> parsed;
  for (const std::string& text : overrides) parsed.push_back(parse_override(text));
  TrainConfig config;
  const std::string preset = model_text(file, parsed, "preset");
  const std::string from = model_text(file, parsed, "from");
  if (!from.empty()) {
    config.model = shape_of(from);
  } else if (!preset.empty()) {
    config.model = model_preset(preset);
  }
  read_file_sections(file, path, config);
  for (const Override& o : parsed) apply(o, config);
  return config;
}

void check_train_config(const TrainConfig& c) {
  const auto require = [](bool holds, const std::string& problem) {
    if (!holds) throw Error{ErrorKind::usage, "configuration: " + problem};
  };
  check_model_config(c.model, "configuration: model");
  check_optimizer_config(c.optimizer, run_numerics(c.run.numerics), "configuration: optimizer");
  require(!c.run.directory.empty(), "run.directory is not set; name a folder for the run");
  require(!c.phases.empty(), "there is no [[phase]]; write at least one with tokens");
  require(!c.data.train.empty(), "data.train is empty; give prefixes made by zaya prepare");
  require(c.data.weights.empty() || c.data.weights.size() == c.data.train.size(),
          fmt::format("data.weights has {} entries for {} prefixes", c.data.weights.size(),
                      c.data.train.size()));
  require(c.data.split.empty() || c.data.order == "megatron",
          "data.split goes with data.order = megatron only; zaya prepare --split cuts token files");
  require(c.data.split.empty() || c.data.split[0] > 0,
          "data.split: the first share, which training takes, must be above 0");
  for (std::size_t i = 0; i < c.phases.size(); ++i) {
    const PhaseOptions& p = c.phases[i];
    const std::string name = fmt::format("phase.{}", i);
    require(p.tokens > 0, name + ".tokens is not set");
    require(p.batch_tokens % p.sequence_length == 0,
            fmt::format("{}.batch_tokens ({}) must be a multiple of sequence_length ({})", name,
                        p.batch_tokens, p.sequence_length));
    require(p.sequence_length <= c.model.max_position_embeddings,
            fmt::format("{}.sequence_length ({}) exceeds model.max_position_embeddings ({})", name,
                        p.sequence_length, c.model.max_position_embeddings));
    const Index micro =
        p.micro_batch_tokens > 0 ? p.micro_batch_tokens : p.batch_tokens / c.parallel.lanes;
    require(micro > 0 && micro % p.sequence_length == 0,
            fmt::format("{}: a micro-batch of {} positions is no multiple of sequence_length ({})",
                        name, micro, p.sequence_length));
    require(p.batch_tokens % (micro * c.parallel.lanes) == 0,
            fmt::format("{}.batch_tokens ({}) must be a multiple of micro_batch_tokens * "
                        "parallel.lanes ({} * {})",
                        name, p.batch_tokens, micro, c.parallel.lanes));
    require(p.warmup_tokens <= p.tokens,
            fmt::format("{}.warmup_tokens ({}) exceeds its tokens ({})", name, p.warmup_tokens,
                        p.tokens));
  }
}

std::string to_toml(TrainConfig config) {
  std::string out, last;
  for (const Section& section : sections_of(config)) {
    if (section.name == "phase") {
      out += "\n[[phase]]\n";
    } else if (section.name != last) {
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section.name);
    }
    last = section.name;
    out += section.fields.to_toml();
  }
  return out;
}

Json mathematical_keys(TrainConfig config) {
  Json out = Json::object();
  Index phase = 0;
  for (const Section& section : sections_of(config)) {
    std::string prefix = section.name;
    if (prefix == "phase") prefix += fmt::format(".{}", phase++);
    const Json values = section.fields.values(true);
    for (const auto& [key, value] : values.members()) out.set(prefix + "." + key, value);
  }
  return out;
}

std::string options_as_markdown() {
  TrainConfig config;
  config.phases.emplace_back();
  std::string out =
      "# Options of a training run\n\n"
      "Generated by `zaya train --options`; do not edit. Every key can be overridden on the "
      "command\n"
      "line as `section.key=value`, a phase by its number as `phase.0.key=value`. Keys marked * "
      "do\n"
      "not change the mathematics of a run: they may differ on resume and stay out of digests.\n";
  std::string last;
  for (const Section& section : sections_of(config)) {
    if (section.name != last) {
      out += fmt::format("\n## {}\n\n| key | type | default | what |\n|---|---|---|---|\n",
                         section.name == "phase" ? "[[phase]]" : "[" + section.name + "]");
    }
    last = section.name;
    for (const Field& field : section.fields.fields()) {
      out += fmt::format("| `{}`{} | {} | `{}` | {} |\n", field.name(),
                         field.is_cosmetic() ? " *" : "", field.type_text(), field.value().dump(),
                         field.help());
    }
  }
  return out;
}

}  // namespace zaya
