// SPDX-License-Identifier: Apache-2.0
//
// Suggestions for misspelt names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace zaya {

// The candidate with the least edit distance to `name`, or "" when none is near (more than a third
// of its letters differ). Ties go to the first.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// "; did you mean NEAREST?" or "".
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace zaya
