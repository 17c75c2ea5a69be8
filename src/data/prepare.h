// SPDX-License-Identifier: Apache-2.0
//
// Text to token files: a thread reads documents, all cores encode them, one writer keeps their
// order. The files written depend on input, tokenizer and options only, never on the number of
// threads or on interruptions. A killed or stopped run, started again with the same arguments, goes
// on where its journal says.
//
//   OUTPUT.journal                     only while work is under way
//   OUTPUT.bin .idx .json              one output, or with shares:
//   OUTPUT.train.* OUTPUT.validation.* OUTPUT.test.*
#pragma once

#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "data/document.h"
#include "data/repeats.h"
#include "data/shard.h"

namespace zaya {

struct PrepareOptions {
  std::vector<std::string> inputs;  // files and folders
  std::string tokenizer;            // tokenizer.json or its folder
  std::string output;               // PREFIX
  ReadOptions reading;
  RepeatFilter::Unit repeats =
      RepeatFilter::Unit::none;  // what is left out when it was there before
  // Shares of two or three outputs, of any sum; empty: one output. A document goes by a digest of
  // its text, so it stays in its share when others come or go, and equal texts never part.
  std::vector<double> shares;
  bool appends_eod = true;
  std::string eod, bos;             // a token or an id; empty: the tokenizer's, or no BOS
  bool has_special_in_text = true;  // special tokens in the text become their ids
  bool overwrites = false;
  Index journal_every_tokens = Index{1} << 26;
  // Text held at a time by each of reader, queue (two) and encoders.
  Index chunk_bytes = Index{8} << 20;
};

struct PrepareResult {
  // All files were there already, made with the same arguments: nothing was done.
  bool was_complete = false;
  // Asked to stop by this signal: the journal is saved, the outputs are not there yet.
  int stop_signal = 0;
  std::vector<std::string> prefixes;
  std::vector<ShardInfo> infos;  // of each prefix
  // What this run left out or changed (empty when was_complete).
  ReadReport report;
  Index repeated_documents = 0, repeated_paragraphs = 0;
  bool has_continued = false;  // an earlier run's work was kept
};

// Error{usage}: no end-of-document id (the message lists candidates), an output that is there and
// not the same, an output that is an input. Error{damaged}: bad documents, unless skipped.
PrepareResult prepare(const PrepareOptions& options, ThreadPool& pool);

// PREFIX of each output.
std::vector<std::string> output_prefixes(const std::string& output, std::size_t num_shares);
// The share, 0 .. shares.size()-1, of a document's text.
int share_of(const std::string& text, const std::vector<double>& shares);

}  // namespace zaya
