// SPDX-License-Identifier: Apache-2.0
//
// `zaya eval perplexity`: how well a model predicts held-out tokens.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "app/commands.h"
#include "app/model_options.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/stop.h"
#include "eval/held_out.h"
#include "text/tokenizer.h"

namespace zaya {

namespace {

void print(const PerplexityResult& r, Index sequence_length, bool is_json) {
  if (is_json) {
    Json out = Json::object();
    out.set("loss", r.loss.mean());
    out.set("num_tokens", r.loss.count);
    out.set("token_perplexity", r.token_perplexity());
    out.set("sequence_length", sequence_length);
    if (r.num_bytes > 0) {
      out.set("num_bytes", r.num_bytes);
      out.set("num_words", r.num_words);
      out.set("bits_per_byte", r.bits_per_byte());
      out.set("byte_perplexity", r.byte_perplexity());
      out.set("word_perplexity", r.word_perplexity());
    }
    std::fputs((out.dump(2) + "\n").c_str(), stdout);
    return;
  }
  std::string text = fmt::format("loss {:.6f} over {} tokens\nperplexity per token {:.4f}\n",
                                 r.loss.mean(), r.loss.count, r.token_perplexity());
  if (r.num_bytes > 0) {
    text += fmt::format("perplexity per byte {:.5f} ({} bytes, {:.5f} bits per byte)\n",
                        r.byte_perplexity(), r.num_bytes, r.bits_per_byte());
    text +=
        fmt::format("perplexity per word {:.3f} ({} words)\n", r.word_perplexity(), r.num_words);
  }
  std::fputs(text.c_str(), stdout);
}

int perplexity(Arguments arguments) {
  ModelOptions options;
  std::vector<std::string> data;
  std::string tokenizer_path;
  Index sequence_length = 0;
  bool is_json = false, shares_rows = false;
  Command command("eval perplexity", "Perplexity per token, byte and word over token files.",
                  "zaya eval perplexity --model runs/quickstart --data data/web/validation");
  options.declare(command, "bf16");
  command.option("--data", data, "Token files (prefixes) to evaluate; every target counts once.",
                 true);
  command.option("--sequence-length", sequence_length,
                 "Longest context; 0: that of the training, or 2048.");
  command.option("--tokenizer", tokenizer_path,
                 "tokenizer.json for bytes and words, if not in the model's folder.");
  command.flag("--no-document-isolation", shares_rows, "Documents of a row see each other.");
  command.flag("--json", is_json, "Prints JSON.");
  if (!command.parse(arguments)) return 0;
  if (sequence_length < 0) throw Error{ErrorKind::usage, "--sequence-length must be at least 0"};
  const RunningModel running = start_model(options, {});
  const OpenModel& open = running.open;
  HeldOutOptions held_out_options;
  held_out_options.prefixes = data;
  held_out_options.isolates_documents = !shares_rows;
  held_out_options.sequence_length =
      sequence_length > 0       ? sequence_length
      : open.trained_length > 0 ? open.trained_length
                                : std::min<Index>(2048, open.config.max_position_embeddings);
  const Index length = held_out_options.sequence_length;
  if (length > open.config.max_position_embeddings) {
    throw Error{ErrorKind::usage,
                fmt::format("--sequence-length {} exceeds the model's {} positions", length,
                            open.config.max_position_embeddings)};
  }
  const std::string path = tokenizer_path.empty() ? running.open.tokenizer_path : tokenizer_path;
  std::unique_ptr<Tokenizer> tokenizer;
  if (path.empty()) {
    log_warning("no tokenizer.json: perplexity per byte and word is left out; give --tokenizer");
  } else {
    tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(path));
    held_out_options.tokenizer_digest = digest_text(tokenizer->digest());
  }
  HeldOut held_out(held_out_options, open.config.vocab_size);
  Evaluator evaluator(*open.model, *running.backend, HeldOut::batch_tokens(length),
                      running.skip_is_identity);
  const std::optional<PerplexityResult> result = evaluate(held_out, evaluator, tokenizer.get());
  if (!result) return 128 + stop_signal();
  print(*result, length, is_json);
  return 0;
}

}  // namespace

int command_eval(Arguments arguments) {
  const std::vector<std::string> kinds{"perplexity"};
  if (arguments.empty() || arguments[0] == "--help") {
    std::fputs("usage: zaya eval perplexity [options]   (zaya eval perplexity --help)\n", stdout);
    return arguments.empty() ? 2 : 0;
  }
  if (arguments[0] == "perplexity") return perplexity(arguments.subspan(1));
  throw Error{ErrorKind::usage, fmt::format("zaya eval: unknown kind {}{}", arguments[0],
                                            did_you_mean(arguments[0], kinds))};
}

}  // namespace zaya
