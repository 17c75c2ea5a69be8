// SPDX-License-Identifier: Apache-2.0
//
// Patterns of tokenizer files are written for Oniguruma (Ruby syntax, UTF-8). This translates them
// to PCRE2 patterns with the same matches, or refuses what has no sure translation.
#pragma once

#include <string>
#include <string_view>

namespace zaya {

// The PCRE2 form of `pattern`, to be compiled with UTF, UCP and MULTILINE. Throws Error{usage} that
// begins with `where`, names the construct and shows the pattern.
std::string to_pcre(std::string_view pattern, std::string_view where);

}  // namespace zaya
