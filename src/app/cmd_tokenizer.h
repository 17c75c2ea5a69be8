// SPDX-License-Identifier: Apache-2.0
//
// The parts of `zaya tokenizer` that stand in files of their own.
#pragma once

#include <span>
#include <string>

#include "app/commands.h"
#include "base/function_ref.h"
#include "base/json.h"
#include "text/vocabulary.h"

namespace zaya {

int command_tokenizer_train(Arguments arguments);
int command_tokenizer_chat(Arguments arguments);

// Calls `convert(object)` for each line of standard input, a JSON object, and prints what it gives
// as a line. Empty lines are passed over.
void convert_lines(FunctionRef<std::string(const Json& object)> convert);
// As a JSON list: a value, and the text of one, which may be long.
Json ids_to_json(std::span<const TokenId> ids);
std::string ids_as_text(std::span<const TokenId> ids);

}  // namespace zaya
