// SPDX-License-Identifier: Apache-2.0
//
// Joins token files: the sequences and documents of each input in the order given.
#pragma once

#include <string>
#include <vector>

namespace zaya {

// Writes `output` (.bin, .idx and, when every input has one, the side file) under temporary names
// and renames it; memory does not grow with the inputs. Error{usage} when the inputs' token types,
// modes or tokenizers differ, when an input is the output, and when the output is there and
// `overwrite` is not set.
void merge_shards(const std::vector<std::string>& prefixes, const std::string& output,
                  bool overwrite);

}  // namespace zaya
