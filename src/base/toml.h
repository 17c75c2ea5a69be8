// SPDX-License-Identifier: Apache-2.0
//
// TOML files as Json values with line numbers. Dates and times are refused: no option has one.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace zaya {

// Throws Error{usage} "path:line: what" when the text is not TOML.
Json parse_toml(std::string_view text, const std::string& path);

}  // namespace zaya
