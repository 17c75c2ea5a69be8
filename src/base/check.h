// SPDX-License-Identifier: Apache-2.0
//
// Checks for our own defects: a failed check prints place and values, then aborts.
#pragma once

#include <string>
#include <string_view>

namespace zaya {

// Prints "file:line: check failed: condition: detail" to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view detail);

}  // namespace zaya

// Always on. The optional second argument is a string (evaluated only on failure).
#define ZAYA_CHECK(condition, ...)                                                    \
  do {                                                                                \
    if (!(condition)) [[unlikely]]                                                    \
      ::zaya::check_failed(__FILE__, __LINE__, #condition, std::string{__VA_ARGS__}); \
  } while (false)

// On in checked builds only.
#ifdef ZAYA_CHECKED
#define ZAYA_DCHECK(condition, ...) ZAYA_CHECK(condition, __VA_ARGS__)
#else
#define ZAYA_DCHECK(condition, ...) \
  do {                              \
  } while (false)
#endif
