// SPDX-License-Identifier: Apache-2.0
//
// Token files of other programs to ours: llm.c shards, .npy arrays, MosaicML data sets. Inputs are
// one stream in the order given; memory does not grow with them. What ends a document:
//
//   a document start   an id that each document begins with: the rule of llm.c, or start_id
//   an end             eod_id, when it is given: each document ends with it
//   neither            each unit of the format: a row, a sample, the whole of a one-dim array
//
// Tokens are kept as they are: no id is added, moved or left out.
#pragma once

#include <string>
#include <vector>

#include "data/shard.h"

namespace zaya {

struct ImportOptions {
  // Files, folders (an MDS folder, or one of .bin or .npy files) and patterns such as 's/*.bin';
  // the files of folders and patterns go in byte order of name.
  std::vector<std::string> inputs;
  std::string output;           // PREFIX
  std::string format = "auto";  // by content, or llmc, npy, mds
  Index eod_id = -1, start_id = -1;
  Index vocabulary_size = 0;     // ids must be below; 0: unknown
  std::string tokenizer_digest;  // of ShardInfo, "" when unknown
  std::string mds_column = "tokens", mds_bytes_type;
  bool overwrites = false;
  // Longer ones are cut into several sequences of one document.
  Index max_sequence_tokens = Index{1} << 30;
};

struct ImportResult {
  int stop_signal = 0;  // asked to stop by this signal: nothing was written
  // Multiple-choice examples of llm.c are no text to train on: they go to OUTPUT.jsonl.
  Index num_choice_examples = 0;
  ShardInfo info;  // of the token file, otherwise
};

// Writes under temporary names, then renames. Error{damaged} for input that breaks the rules of its
// format or holds what can't be an id; Error{usage} for inputs that do not go together, an output
// that is there, and formats that have to be converted first (the message says how). Passes the
// fault points import.batch and publish.rename.
ImportResult import_tokens(const ImportOptions& options);

}  // namespace zaya
