// SPDX-License-Identifier: Apache-2.0
//
// Copying what nobody reads soon: the target is written past the caches, which saves reading it
// first and keeps the caches as they are.
#pragma once

#include <cstddef>

namespace zaya {

// As memcpy. Other threads see the bytes after any synchronisation, as usual.
void copy_past_caches(void* to, const void* from, std::size_t num_bytes);

}  // namespace zaya
