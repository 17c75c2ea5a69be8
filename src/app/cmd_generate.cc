// SPDX-License-Identifier: Apache-2.0
//
// `zaya generate`: prints continuations of prompts as they come.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "app/commands.h"
#include "app/model_options.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/stop.h"
#include "eval/generate.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace zaya {

namespace {

struct Options {
  std::vector<std::string> prompts, input_ids;
  std::string prompt_file, tokenizer, chat_template = "auto", system;
  Index max_new_tokens = 200, context = 0;
  bool ignore_eos = false, is_json = false, prints_prompt = true, is_chat = false;
  SamplerOptions sampler;
  Index seed = 1;
};

// "4 17 70" or "4,17,70".
std::vector<std::int32_t> parse_ids(std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::vector<std::int32_t> ids;
  const char* at = text.c_str();
  while (true) {
    while (*at == ' ') ++at;
    if (*at == 0) return ids;
    char* end = nullptr;
    const long id = std::strtol(at, &end, 10);
    if (end == at || id < 0 || id > INT32_MAX) {
      throw Error{ErrorKind::usage,
                  fmt::format("--input-ids: can't read a token id at \"{}\"", at)};
    }
    ids.push_back(static_cast<std::int32_t>(id));
    at = end;
  }
}

// Sampling defaults of generation_config.json where the command line says nothing.
void apply_defaults(const Command& command, const Json& defaults, Options& options) {
  if (!defaults.is_object()) return;
  const auto number = [&](const char* flag, const char* key, double& value) {
    if (command.given(flag)) return;
    if (const Json* v = defaults.find(key); v != nullptr && v->is_number()) value = v->as_real();
  };
  if (const Json* v = defaults.find("do_sample");
      v != nullptr && v->is_bool() && !v->as_bool() && !command.given("--temperature")) {
    options.sampler.temperature = 0;
    return;
  }
  number("--temperature", "temperature", options.sampler.temperature);
  number("--top-p", "top_p", options.sampler.top_p);
  number("--min-p", "min_p", options.sampler.min_p);
  number("--repetition-penalty", "repetition_penalty", options.sampler.repetition_penalty);
  double top_k = static_cast<double>(options.sampler.top_k);
  number("--top-k", "top_k", top_k);
  options.sampler.top_k = static_cast<Index>(top_k);
}

std::vector<std::int32_t> stop_ids(const OpenModel& open, const Tokenizer* tokenizer) {
  std::vector<std::int32_t> ids;
  const auto add = [&](std::int64_t id) {
    if (id >= 0 && id < open.config.vocab_size) ids.push_back(static_cast<std::int32_t>(id));
  };
  if (open.generation_config.is_object()) {
    if (const Json* eos = open.generation_config.find("eos_token_id")) {
      if (eos->is_integer()) add(eos->as_integer());
      if (eos->is_array()) {
        for (const Json& id : eos->items()) add(id.as_integer());
      }
    }
  }
  add(open.config.eos_token_id);
  if (tokenizer != nullptr && tokenizer->eos()) add(*tokenizer->eos());
  return ids;
}

void check(const Options& o) {
  const auto require = [](bool holds, const char* problem) {
    if (!holds) throw Error{ErrorKind::usage, std::string("zaya generate: ") + problem};
  };
  const int given = !o.prompts.empty() + !o.input_ids.empty() + !o.prompt_file.empty();
  require(given == 1, "give one of --prompt, --prompt-file, --input-ids");
  require(o.input_ids.empty() || !o.is_chat, "--chat goes with --prompt or --prompt-file");
  require(o.system.empty() || o.is_chat, "--system needs --chat");
  require(o.sampler.temperature >= 0, "--temperature must be at least 0");
  require(o.sampler.top_p > 0 && o.sampler.top_p <= 1, "--top-p must be above 0 and at most 1");
  require(o.sampler.min_p >= 0 && o.sampler.min_p <= 1, "--min-p must be from 0 to 1");
  require(o.sampler.top_k >= 0, "--top-k must be at least 0");
  require(o.sampler.repetition_penalty > 0, "--repetition-penalty must be above 0");
  require(o.max_new_tokens >= 0, "--max-new-tokens must be at least 0");
}

// Prints tokens of one sequence at once; with several, each when it is complete.
class Printer {
 public:
  Printer(const Tokenizer* tokenizer, bool is_streaming)
      : tokenizer_(tokenizer), is_streaming_(is_streaming) {
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer, DecodeOptions{true, true});
  }
  bool on_token(std::int32_t id, bool is_hidden) {
    if (is_streaming_ && !is_hidden) {
      put(tokenizer_ == nullptr ? fmt::format("{} ", id) : decoder_->push(id));
    }
    return stop_signal() == 0;
  }
  void finish() {
    if (is_streaming_) put((tokenizer_ == nullptr ? "" : decoder_->finish()) + "\n");
  }

 private:
  static void put(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  const Tokenizer* tokenizer_;
  bool is_streaming_;
  std::optional<StreamDecoder> decoder_;
};

std::vector<Prompt> make_prompts(const Options& o, const OpenModel& open,
                                 const Tokenizer* tokenizer, const ChatTemplate* chat) {
  std::vector<Prompt> prompts;
  for (const std::string& text : o.input_ids) prompts.push_back({parse_ids(text), 0});
  std::vector<std::string> texts = o.prompts;
  if (!o.prompt_file.empty()) texts.push_back(read_file(o.prompt_file));
  for (const std::string& text : texts) {
    if (tokenizer == nullptr) {
      throw Error{ErrorKind::usage,
                  "the model's folder has no tokenizer.json; give --tokenizer or --input-ids"};
    }
    EncodeOptions encode;
    encode.add_special = true;
    Prompt prompt;
    if (chat != nullptr) {
      std::vector<ChatMessage> messages;
      if (!o.system.empty()) messages.push_back({"system", o.system});
      messages.push_back({"user", text});
      prompt.ids = chat->encode(*tokenizer, messages, true);
    } else {
      prompt.ids = tokenizer->encode(text, encode);
    }
    // An empty prompt begins a new document.
    if (prompt.ids.empty()) {
      const std::vector<std::int32_t> ends = stop_ids(open, tokenizer);
      if (ends.empty()) throw Error{ErrorKind::usage, "the prompt is empty"};
      prompt.ids.push_back(ends[0]);
    }
    prompts.push_back(prompt);
  }
  for (const Prompt& prompt : prompts) {
    for (const std::int32_t id : prompt.ids) {
      if (id >= open.config.vocab_size) {
        throw Error{ErrorKind::usage, fmt::format("token id {} lies outside the vocabulary of {}",
                                                  id, open.config.vocab_size)};
      }
    }
    if (prompt.ids.empty()) throw Error{ErrorKind::usage, "the prompt has no tokens"};
  }
  return prompts;
}

void print_result(const Options& o, const std::vector<Prompt>& prompts,
                  const std::vector<std::vector<std::int32_t>>& results,
                  const Tokenizer* tokenizer) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (o.is_json) {
      Json line = Json::object();
      Json ids = Json::array();
      for (const std::int32_t id : results[i]) ids.push(Json(std::int64_t{id}));
      line.set("ids", ids);
      if (tokenizer != nullptr) line.set("text", tokenizer->decode(results[i], {true, true}));
      line.set("prompt_tokens", static_cast<Index>(prompts[i].ids.size()));
      std::fputs((line.dump() + "\n").c_str(), stdout);
    } else if (results.size() > 1) {
      std::string text;
      if (tokenizer != nullptr) {
        text = (o.prints_prompt && i < o.prompts.size() ? o.prompts[i] : "") +
               tokenizer->decode(results[i], {true, true});
      } else {
        for (const std::int32_t id : results[i]) text += fmt::format("{} ", id);
      }
      std::fputs(fmt::format("{}--- {}\n{}\n", i > 0 ? "\n" : "", i + 1, text).c_str(), stdout);
    }
  }
}

}  // namespace

namespace {

// Declares and reads the command line; false when help was printed.
bool parse_options(Command& command, ModelOptions& model_options, Options& o, Arguments arguments) {
  bool hides_prompt = false;
  model_options.declare(command, "bf16");
  command.option("--prompt", o.prompts, "Text to continue; may be given several times.");
  command.option("--prompt-file", o.prompt_file, "File with the text to continue.");
  command.option("--input-ids", o.input_ids, "Token ids to continue: \"4 17 70\".");
  command.option("--tokenizer", o.tokenizer, "tokenizer.json, if not in the model's folder.");
  command.option("--max-new-tokens", o.max_new_tokens, "Longest continuation.");
  command.option("--context", o.context, "Room for prompt and continuation; 0: as needed.");
  command.option("--temperature", o.sampler.temperature, "0 takes the most likely token.");
  command.option("--top-k", o.sampler.top_k, "Keep the k most likely tokens; 0: all.");
  command.option("--top-p", o.sampler.top_p, "Keep the fewest tokens that reach this probability.");
  command.option("--min-p", o.sampler.min_p, "Drop tokens below this share of the likeliest.");
  command.option("--repetition-penalty", o.sampler.repetition_penalty,
                 "Makes tokens that occurred less likely; 1: off.");
  command.option("--seed", o.seed, "Seed of the sampling.");
  command.flag("--ignore-eos", o.ignore_eos, "Go on after end of text.");
  command.flag("--hide-prompt", hides_prompt, "Print the continuation only.");
  command.flag("--chat", o.is_chat, "Prompts are a user's messages; prints the answers.");
  std::vector<std::string> templates = ChatTemplate::names();
  templates.insert(templates.begin(), "auto");
  command.choice("--chat-template", o.chat_template, templates,
                 "How a chat is written down; auto: as the tokenizer's own template says.");
  command.option("--system", o.system, "The system's message before the user's.");
  command.flag("--json", o.is_json, "One JSON line per prompt: ids, text.");
  if (!command.parse(arguments)) return false;
  o.prints_prompt = !hides_prompt && !o.is_chat;
  return true;
}

// Generates and prints; the result is the number of new tokens.
Index run_prompts(const RunningModel& running, const Options& o, const Tokenizer* tokenizer,
                  const ChatTemplate* chat, const std::vector<Prompt>& prompts) {
  Index longest = 0;
  for (const Prompt& prompt : prompts) {
    longest = std::max(longest, static_cast<Index>(prompt.ids.size()));
  }
  const Index limit = running.open.config.max_position_embeddings;
  const Index capacity = std::min(limit, o.context > 0 ? o.context : longest + o.max_new_tokens);
  Generator generator(*running.open.model, *running.backend, static_cast<Index>(prompts.size()),
                      capacity);
  GenerateOptions generate;
  generate.sampler = o.sampler;
  generate.max_new_tokens = o.max_new_tokens;
  generate.skip_is_identity = running.skip_is_identity;
  if (tokenizer != nullptr) generate.vocabulary_limit = tokenizer->vocabulary_size();
  std::vector<std::int32_t> ends = stop_ids(running.open, tokenizer);
  if (chat != nullptr) ends.push_back(chat->end_of_turn(*tokenizer));
  if (!o.ignore_eos) generate.stop_ids = ends;

  const bool is_streaming = prompts.size() == 1 && !o.is_json;
  Printer printer(tokenizer, is_streaming);
  if (is_streaming && o.prints_prompt && !o.prompts.empty()) {
    std::fputs(o.prompts[0].c_str(), stdout);
    std::fflush(stdout);
  }
  const auto results = generator.generate(prompts, generate, [&](Index, std::int32_t id) {
    const bool is_end = std::find(ends.begin(), ends.end(), id) != ends.end();
    return printer.on_token(id, is_end && tokenizer != nullptr);
  });
  printer.finish();
  print_result(o, prompts, results, tokenizer);
  Index made = 0;
  for (const auto& result : results) made += static_cast<Index>(result.size());
  return made;
}

}  // namespace

int command_generate(Arguments arguments) {
  ModelOptions model_options;
  Options o;
  Command command("generate", "Continues prompts.",
                  "zaya generate --model runs/quickstart --prompt \"In the beginning\" --seed 3");
  if (!parse_options(command, model_options, o, arguments)) return 0;
  check(o);
  const RunningModel running = start_model(model_options, {});
  apply_defaults(command, running.open.generation_config, o);
  check(o);
  o.sampler.seed = static_cast<std::uint64_t>(o.seed);
  const std::string path = o.tokenizer.empty() ? running.open.tokenizer_path : o.tokenizer;
  std::unique_ptr<Tokenizer> tokenizer;
  if (!path.empty() && o.input_ids.empty()) {
    tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(path));
  }
  if (o.is_chat && tokenizer == nullptr) {
    throw Error{ErrorKind::usage,
                "--chat: the model's folder has no tokenizer.json; give --tokenizer"};
  }
  const ChatTemplate* chat =
      o.is_chat ? &ChatTemplate::choose(o.chat_template, *tokenizer) : nullptr;
  const std::vector<Prompt> prompts = make_prompts(o, running.open, tokenizer.get(), chat);
  const double began = monotonic_seconds();
  const Index made = run_prompts(running, o, tokenizer.get(), chat, prompts);
  const double seconds = monotonic_seconds() - began;
  log_info(fmt::format("{} new tokens, {:.1f} tokens/s", made,
                       static_cast<double>(made) / std::max(seconds, 1e-9)));
  return stop_signal() > 0 ? 128 + stop_signal() : 0;
}

}  // namespace zaya
