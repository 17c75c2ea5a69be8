// SPDX-License-Identifier: Apache-2.0
//
// The decoder of a tokenizer: a chain of steps over a list of token contents, whose results are put
// together to the text.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/types.h"
#include "text/component.h"
#include "text/regex.h"

namespace zaya {

// Immutable after construction.
class Decoder {
 public:
  // Contents joined by spaces.
  Decoder() = default;
  // Reads the member "decoder" (null: as above). Throws Error naming what is not supported.
  Decoder(const Json& json, const std::string& where);

  // The text of the contents of some tokens.
  std::string decode(std::vector<std::string> contents) const;

 private:
  struct ByteLevel {};
  struct ByteFallback {};
  struct Fuse {};
  struct Replace {
    std::string from, to;
  };
  struct Strip {
    std::string content;  // one character
    Index num_left, num_right;
  };
  struct Metaspace {
    std::string replacement;
    bool drops_first;
  };
  using Step = std::variant<ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace>;

  void read(const Component& component);

  bool is_present_ = false;
  std::vector<Step> steps_;
};

}  // namespace zaya
