// SPDX-License-Identifier: Apache-2.0
//
// .metadata of PyTorch's distributed checkpoints. Any bytes are refused, or describe tensors whose
// chunks tile them and lie in files of the folder.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/dcp.h"

namespace zaya {
namespace {

constexpr std::uint64_t kMarkedElements = 4096;

// Marks every element of small tensors: each must come once.
void check_tiling(const DcpTensor& tensor) {
  const std::uint64_t total = element_count(tensor.spec);
  if (total > kMarkedElements) return;
  std::vector<int> marks(total, 0);
  const std::size_t rank = tensor.spec.shape.size();
  for (const DcpChunk& chunk : tensor.chunks) {
    const std::uint64_t count = element_count({{}, tensor.spec.type, chunk.sizes});
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t rest = i, element = 0, stride = 1;
      for (std::size_t d = rank; d-- > 0;) {
        element += (chunk.offsets[d] + rest % chunk.sizes[d]) * stride;
        rest /= chunk.sizes[d];
        stride *= tensor.spec.shape[d];
      }
      ZAYA_CHECK(element < total);
      ++marks[element];
    }
  }
  for (const int mark : marks) ZAYA_CHECK(mark == 1);
}

void check_item(const DcpItem& item) {
  ZAYA_CHECK(!item.file.empty() && item.file != "..");
  ZAYA_CHECK(item.file.find('/') == std::string::npos);
}

}  // namespace
}  // namespace zaya

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const zaya::DcpMetadata metadata =
        zaya::parse_dcp_metadata(std::as_bytes(std::span(data, size)), "input");
    for (const zaya::DcpTensor& tensor : metadata.tensors) {
      zaya::check_tiling(tensor);
      for (const zaya::DcpChunk& chunk : tensor.chunks) zaya::check_item(chunk.item);
    }
    for (const zaya::DcpObject& object : metadata.objects) zaya::check_item(object.item);
  } catch (const zaya::Error& error) {
    ZAYA_CHECK(error.kind() == zaya::ErrorKind::damaged);
    ZAYA_CHECK(error.message().find('\n') == std::string::npos);
  }
  return 0;
}
