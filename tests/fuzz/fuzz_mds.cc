// SPDX-License-Identifier: Apache-2.0
//
// MosaicML data sets. The first two bytes of an input are the size of index.json, which follows;
// the rest is a raw shard, taken for each of the shards that the index describes. Any bytes are
// refused, or give samples that lie inside the shard.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "data/mds.h"

namespace zaya {
namespace {

void check_shard(std::span<const std::byte> bytes, MdsShardInfo info) {
  // What the index states is what the file has: sizes are the first thing that is compared.
  info.raw.bytes = static_cast<Index>(bytes.size());
  const MdsTokens layout = find_mds_tokens(info, "tokens", "int32", "index");
  const MdsShard shard(bytes, info, "shard");
  for (Index i = 0; i < shard.num_samples(); ++i) {
    const MdsValues values = shard.tokens(i, layout);
    ZAYA_CHECK(values.bytes.size() % static_cast<std::size_t>(values.format.bytes) == 0);
    ZAYA_CHECK(values.bytes.size() <= bytes.size());
    std::int64_t sum = 0;
    for (Index v = 0; v < values.count(); ++v) {
      sum ^= integer_at(values.format, values.bytes.data(), v);
    }
    ZAYA_CHECK(values.count() > 0 || sum == 0);
  }
}

}  // namespace
}  // namespace zaya

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t index_size = std::min<std::size_t>(data[0] + 256u * data[1], size - 2);
  const std::string_view index(reinterpret_cast<const char*>(data) + 2, index_size);
  const auto shard = std::as_bytes(std::span(data + 2 + index_size, size - 2 - index_size));
  std::vector<zaya::MdsShardInfo> infos;
  try {
    infos = zaya::parse_mds_index(index, "index");
  } catch (const zaya::Error&) {
    return 0;
  }
  for (const zaya::MdsShardInfo& info : infos) {
    ZAYA_CHECK(!info.stored().name.starts_with('/'));
    try {
      zaya::check_shard(shard, info);
    } catch (const zaya::Error&) {
      continue;
    }
  }
  return 0;
}
