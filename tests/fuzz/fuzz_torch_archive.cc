// SPDX-License-Identifier: Apache-2.0
//
// Archives of torch.save, and the pickles in them. Any bytes are refused, or hold a tensor whose
// values lie inside the archive, or a value that can be told. A pickle by itself is tried too: the
// checksums of an archive would keep most changes away from it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/pickle.h"
#include "checkpoint/torch_archive.h"

namespace zaya {
namespace {

void try_reading(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    ZAYA_CHECK(error.kind() == ErrorKind::damaged);
    ZAYA_CHECK(error.message().find('\n') == std::string::npos);
  }
}

void check_tensor(std::span<const std::byte> bytes) {
  const StoredTensor tensor = read_torch_tensor(TorchArchive(bytes, "input"));
  ZAYA_CHECK(num_bytes_of(tensor.spec) == tensor.bytes.size());
  if (tensor.bytes.empty()) return;
  ZAYA_CHECK(tensor.bytes.data() >= bytes.data());
  ZAYA_CHECK(tensor.bytes.data() + tensor.bytes.size() <= bytes.data() + bytes.size());
}

void check_pickle(std::span<const std::byte> bytes) {
  static constexpr std::array<std::string_view, 3> kAllowed = {
      "torch Size", "collections OrderedDict", "torch._utils _rebuild_tensor_v2"};
  const Pickle pickle(bytes, kAllowed, "input");
  ZAYA_CHECK(pickle.root() < pickle.num_values());
  ZAYA_CHECK(pickle.num_values() <= bytes.size());
}

}  // namespace
}  // namespace zaya

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  zaya::try_reading([&] { zaya::check_tensor(bytes); });
  zaya::try_reading([&] {
    const std::string text = zaya::read_torch_object(zaya::TorchArchive(bytes, "input")).dump();
    static_cast<void>(zaya::Json::parse(text, "what was read"));
  });
  zaya::try_reading([&] { zaya::check_pickle(bytes); });
  return 0;
}
