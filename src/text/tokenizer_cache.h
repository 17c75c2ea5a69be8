// SPDX-License-Identifier: Apache-2.0
//
// A copy of a large tokenizer.json that loads in a fraction of the time: its tables as they lie in
// memory, in the file .tokenizer.json.zaya-cache beside it.
//
//   bytes  0  "ZAYATOKC", u32 format version, u32 0x01020304 in this machine's byte order
//         16  XXH3-128 of the tokenizer.json it was made of (low, high)
//         32  u64 bytes that follow the head, u64 0
//         48  XXH3-128 of what follows (low, high)
//         64  components as JSON, warning, vocabulary, model, added tokens (table_bytes.h)
//
// A cache is never trusted: other bytes, versions, sources and machines are told from the head, and
// every table is checked before it is used. It may vanish at any time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "text/tokenizer_file.h"

namespace zaya {

// Smaller files load fast enough without one.
inline constexpr std::size_t kLeastCachedBytes = std::size_t{2} << 20;

// Where the cache of a tokenizer file lies, and is that the name (no folder) of one?
std::string tokenizer_cache_path(const std::string& tokenizer_path);
bool is_tokenizer_cache(std::string_view name);

// A head for these tables, and the tables.
std::string seal_tokenizer_cache(std::string_view tables, Hash128 source);
// The bytes of a cache file.
std::string encode_tokenizer_cache(const TokenizerModel& model, Hash128 source);
// Throws Error{damaged} with the reason when the bytes are not a cache of `source`. `where` begins
// messages about components, as for the file itself.
std::unique_ptr<const TokenizerModel> decode_tokenizer_cache(std::string_view bytes, Hash128 source,
                                                             const std::string& where);

// As above from and to the file beside `tokenizer_path`. What can't be read, used or written is no
// error: it is a line in the debug log. Any number of processes may do this at once.
std::unique_ptr<const TokenizerModel> read_tokenizer_cache(const std::string& tokenizer_path,
                                                           Hash128 source);
void write_tokenizer_cache(const std::string& tokenizer_path, const TokenizerModel& model,
                           Hash128 source);

}  // namespace zaya
