// SPDX-License-Identifier: Apache-2.0
//
// Joins token files: the sequences and documents of each input in the order given. The tokens are
// copied in sections; a journal beside the output holds the checksum of each section that is on the
// device, so that a joining that was stopped goes on after the last one. At the end everything is
// read back and compared.
#pragma once

#include <string>
#include <vector>

#include "base/types.h"

namespace zaya {

struct MergeOptions {
  std::vector<std::string> prefixes;
  std::string output;                    // PREFIX
  bool overwrites = false;               // replaces an output that is there
  Index section_bytes = Index{1} << 28;  // how much a stop can cost
};

struct MergeResult {
  // Asked to stop by this signal: the same call goes on, the output is not there yet.
  int stop_signal = 0;
  // Bytes of the .bin file that an earlier, unfinished call had written.
  Index kept_bytes = 0;
};

// Writes .bin, .idx and, when every input has one, the side file under temporary names and renames
// them; memory does not grow with the inputs. Error{usage} when the inputs' token types, modes or
// tokenizers differ, when an input is the output, and when the output is there and may not be
// replaced. Error{damaged} when an input's tokens are not those that its side file has the checksum
// of, Error{hardware} when the device gives other bytes back than were written. Passes the fault
// points merge.block, merge.section, merge.written and merge.published.
MergeResult merge_shards(const MergeOptions& options);

}  // namespace zaya
