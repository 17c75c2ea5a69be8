// SPDX-License-Identifier: Apache-2.0
//
// .metadata of a DCP folder: Metadata(state_dict_metadata, planner_data, storage_data, ...).
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "checkpoint/dcp.h"
#include "checkpoint/header_scanner.h"
#include "checkpoint/pickle.h"

namespace zaya {

namespace {

using Ref = Pickle::Ref;
using Kind = Pickle::Kind;

constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata Metadata";
constexpr std::string_view kTensor = "torch.distributed.checkpoint.metadata TensorStorageMetadata";
constexpr std::string_view kBytes = "torch.distributed.checkpoint.metadata BytesStorageMetadata";
constexpr std::string_view kChunk = "torch.distributed.checkpoint.metadata ChunkStorageMetadata";
constexpr std::string_view kProperties = "torch.distributed.checkpoint.metadata TensorProperties";
constexpr std::string_view kIndex = "torch.distributed.checkpoint.metadata MetadataIndex";
constexpr std::string_view kStorage = "torch.distributed.checkpoint.filesystem _StorageInfo";
constexpr std::string_view kSize = "torch Size";

// More ranks than any run has; keeps the comparison of chunks small.
constexpr std::size_t kMaxChunks = 1 << 16;

struct Type {
  std::string_view name;
  StorageType type;
};
constexpr Type kTypes[] = {
    {"torch float64", StorageType::f64},   {"torch float32", StorageType::f32},
    {"torch float16", StorageType::f16},   {"torch bfloat16", StorageType::bf16},
    {"torch int64", StorageType::i64},     {"torch int32", StorageType::i32},
    {"torch int16", StorageType::i16},     {"torch int8", StorageType::i8},
    {"torch uint8", StorageType::u8},      {"torch bool", StorageType::boolean},
    {"torch complex64", StorageType::c64},
};

constexpr auto kAllowed = [] {
  constexpr std::string_view kOthers[] = {
      kMetadata,
      kTensor,
      kBytes,
      kChunk,
      kProperties,
      kIndex,
      kStorage,
      kSize,
      "torch.distributed.checkpoint.metadata StorageMeta",
      "torch.distributed.checkpoint.metadata _MEM_FORMAT_ENCODING",
      "torch.serialization _get_layout",
      "collections OrderedDict",
      "pathlib PosixPath",
      "pathlib._local PosixPath",
  };
  std::array<std::string_view, std::size(kOthers) + std::size(kTypes)> names{};
  std::size_t count = 0;
  for (const std::string_view name : kOthers) names[count++] = name;
  for (const Type& type : kTypes) names[count++] = type.name;
  return names;
}();

// Items by name and, of a chunk, its place.
using Places = std::map<std::string, DcpItem>;

std::string place_key(std::string_view name, const std::vector<std::uint64_t>* offsets) {
  std::string key(name);
  key += '\0';
  if (offsets == nullptr) return key;
  for (const std::uint64_t offset : *offsets) key += fmt::format("{},", offset);
  return key + ".";
}

class MetadataReader {
 public:
  MetadataReader(std::span<const std::byte> bytes, const std::string& where)
      : where_(where), pickle_(bytes, kAllowed, where) {}

  DcpMetadata read() {
    const Ref metadata = state_of(pickle_.root(), kMetadata, "the whole");
    read_places(member(metadata, "storage_data", "the whole"));
    DcpMetadata result;
    const Ref values = member(metadata, "state_dict_metadata", "the whole");
    const std::span<const Ref> pairs = pickle_.items(values, Kind::dict, "state_dict_metadata");
    for (std::size_t i = 0; i < pairs.size(); i += 2) {
      const std::string name(pickle_.text(pairs[i], "a name in state_dict_metadata"));
      const std::string what = "the entry of " + shown_name(name);
      if (pickle_.class_of(pairs[i + 1], what) == kBytes) {
        result.objects.push_back({name, take_place(name, nullptr)});
      } else {
        result.tensors.push_back(read_tensor(name, pairs[i + 1], what));
      }
    }
    if (!places_.empty()) {
      fail("storage_data has an item of {} that state_dict_metadata does not describe",
           shown_name(places_.begin()->first.c_str()));
    }
    sort_by_name(result);
    return result;
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error{ErrorKind::damaged,
                fmt::format("{}: {}", where_, fmt::format(format, std::forward<Args>(args)...))};
  }

  // ---- shapes of values
  Ref state_of(Ref object, std::string_view wanted, std::string_view what) const {
    if (pickle_.class_of(object, what) != wanted) {
      fail("{} is a {}, expected {}", what, pickle_.class_of(object, what), wanted);
    }
    const std::optional<Ref> state = pickle_.state(object);
    if (!state) fail("{} is empty", what);
    return *state;
  }
  Ref member(Ref dict, std::string_view key, std::string_view what) const {
    const std::optional<Ref> found = pickle_.find(dict, key, what);
    if (!found) fail("{} has no {}", what, key);
    return *found;
  }
  std::uint64_t count_of(Ref value, std::string_view what) const {
    const std::int64_t number = pickle_.integer(value, what);
    if (number < 0) fail("{} is {}, below 0", what, number);
    return static_cast<std::uint64_t>(number);
  }
  // torch.Size((a, b, ...)).
  std::vector<std::uint64_t> size_of_value(Ref value, std::string_view what) const {
    if (pickle_.class_of(value, what) != kSize) fail("{} is no torch.Size", what);
    const std::span<const Ref> arguments =
        pickle_.items(pickle_.arguments(value), Kind::tuple, what);
    if (arguments.size() != 1) fail("{} is no torch.Size of one tuple", what);
    std::vector<std::uint64_t> sizes;
    for (const Ref item : pickle_.items(arguments[0], Kind::tuple, what)) {
      sizes.push_back(count_of(item, what));
    }
    return sizes;
  }
  StorageType type_of(Ref properties, const std::string& what) const {
    const Ref state = state_of(properties, kProperties, what + ", properties");
    const std::span<const Ref> parts = pickle_.items(state, Kind::tuple, what + ", properties");
    if (parts.empty()) fail("{} has no type", what);
    const std::string_view name = pickle_.name(parts[0], what + ", type");
    for (const Type& type : kTypes) {
      if (type.name == name) return type.type;
    }
    fail("{} has the type {}, which is not known here", what, name);
  }

  // ---- storage_data: MetadataIndex -> _StorageInfo
  void read_places(Ref dict) {
    const std::span<const Ref> pairs = pickle_.items(dict, Kind::dict, "storage_data");
    for (std::size_t i = 0; i < pairs.size(); i += 2) {
      const Ref index = state_of(pairs[i], kIndex, "a key of storage_data");
      const std::string_view name =
          pickle_.text(member(index, "fqn", "a key of storage_data"), "fqn in storage_data");
      const std::string what = "the place of " + shown_name(name);
      const std::optional<Ref> offset = pickle_.find(index, "offset", what);
      std::vector<std::uint64_t> offsets;
      const bool has_offsets = offset && pickle_.kind(*offset) != Kind::none;
      if (has_offsets) offsets = size_of_value(*offset, what);
      const std::string key = place_key(name, has_offsets ? &offsets : nullptr);
      if (!places_.emplace(key, item_of(pairs[i + 1], what)).second) fail("{} occurs twice", what);
    }
  }
  DcpItem item_of(Ref info, const std::string& what) const {
    const Ref state = state_of(info, kStorage, what);
    DcpItem item;
    item.file = pickle_.text(member(state, "relative_path", what), what);
    const bool leaves = item.file.empty() || item.file == "." || item.file == ".." ||
                        item.file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos;
    if (leaves) fail("{} is {}, no name of a file in this folder", what, shown_name(item.file));
    item.offset = count_of(member(state, "offset", what), what);
    item.length = count_of(member(state, "length", what), what);
    // Newer writers may compress items.
    const std::optional<Ref> transforms = pickle_.find(state, "transform_descriptors", what);
    const bool is_plain = !transforms || pickle_.kind(*transforms) == Kind::none ||
                          (pickle_.kind(*transforms) == Kind::tuple &&
                           pickle_.items(*transforms, Kind::tuple, what).empty());
    if (!is_plain) fail("{}: it was compressed or otherwise transformed; save it plainly", what);
    return item;
  }
  DcpItem take_place(const std::string& name, const std::vector<std::uint64_t>* offsets) {
    const auto found = places_.find(place_key(name, offsets));
    if (found == places_.end()) {
      std::string at;
      for (std::size_t d = 0; offsets != nullptr && d < offsets->size(); ++d) {
        at += fmt::format("{}{}", d == 0 ? " at " : ", ", (*offsets)[d]);
      }
      fail("storage_data has no place for {}{}", shown_name(name), at);
    }
    DcpItem item = std::move(found->second);
    places_.erase(found);
    return item;
  }

  // ---- state_dict_metadata: name -> TensorStorageMetadata
  DcpTensor read_tensor(const std::string& name, Ref value, const std::string& what) {
    const Ref state = state_of(value, kTensor, what);
    DcpTensor tensor;
    tensor.spec.name = name;
    tensor.spec.type = type_of(member(state, "properties", what), what);
    tensor.spec.shape = size_of_value(member(state, "size", what), what + ", size");
    if (!checked_num_bytes(tensor.spec)) fail("{} is larger than any file", what);
    for (const Ref item : pickle_.items(member(state, "chunks", what), Kind::list, what)) {
      if (tensor.chunks.size() == kMaxChunks) fail("{} has more than {} chunks", what, kMaxChunks);
      const Ref chunk_state = state_of(item, kChunk, what + ", chunk");
      DcpChunk chunk;
      chunk.offsets = size_of_value(member(chunk_state, "offsets", what), what + ", offsets");
      chunk.sizes = size_of_value(member(chunk_state, "sizes", what), what + ", sizes");
      check_inside(tensor, chunk, what);
      chunk.item = take_place(name, &chunk.offsets);
      tensor.chunks.push_back(std::move(chunk));
    }
    check_tiling(tensor, what);
    return tensor;
  }
  void check_inside(const DcpTensor& tensor, const DcpChunk& chunk, const std::string& what) const {
    const std::vector<std::uint64_t>& shape = tensor.spec.shape;
    if (chunk.offsets.size() != shape.size() || chunk.sizes.size() != shape.size()) {
      fail("{}: a chunk has {} dims, the tensor {}", what, chunk.sizes.size(), shape.size());
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (chunk.offsets[d] > shape[d] || chunk.sizes[d] > shape[d] - chunk.offsets[d]) {
        fail("{}: a chunk takes [{}, {}) of dim {}, which has {}", what, chunk.offsets[d],
             chunk.offsets[d] + chunk.sizes[d], d, shape[d]);
      }
    }
  }
  static bool overlap(const DcpChunk& a, const DcpChunk& b) {
    for (std::size_t d = 0; d < a.sizes.size(); ++d) {
      if (a.offsets[d] >= b.offsets[d] + b.sizes[d]) return false;
      if (b.offsets[d] >= a.offsets[d] + a.sizes[d]) return false;
    }
    return true;
  }
  // Boxes inside the tensor that do not overlap and add up to its size tile it.
  void check_tiling(const DcpTensor& tensor, const std::string& what) const {
    std::uint64_t covered = 0;
    std::vector<const DcpChunk*> boxes;
    for (const DcpChunk& chunk : tensor.chunks) {
      const std::uint64_t count = element_count({{}, tensor.spec.type, chunk.sizes});
      covered += count;
      if (count > 0) boxes.push_back(&chunk);
      // No overflow: each box is no larger than the tensor, and there are few.
      if (covered > element_count(tensor.spec)) fail("{}: its chunks overlap", what);
    }
    if (covered < element_count(tensor.spec)) {
      fail("{}: its chunks hold {} of {} values, the rest is missing", what, covered,
           element_count(tensor.spec));
    }
    const std::size_t axis = busiest_axis(boxes);
    std::sort(boxes.begin(), boxes.end(), [axis](const DcpChunk* a, const DcpChunk* b) {
      return axis < a->offsets.size() && a->offsets[axis] < b->offsets[axis];
    });
    std::vector<const DcpChunk*> open;  // boxes that reach the current place of the axis
    for (const DcpChunk* box : boxes) {
      if (axis < box->offsets.size()) {
        std::erase_if(open, [&](const DcpChunk* each) {
          return each->offsets[axis] + each->sizes[axis] <= box->offsets[axis];
        });
      }
      for (const DcpChunk* each : open) {
        if (overlap(*each, *box)) fail("{}: its chunks overlap", what);
      }
      open.push_back(box);
    }
  }
  // The dim along which most boxes begin at places of their own.
  static std::size_t busiest_axis(const std::vector<const DcpChunk*>& boxes) {
    std::size_t best = 0, most = 0;
    const std::size_t rank = boxes.empty() ? 0 : boxes[0]->offsets.size();
    for (std::size_t d = 0; d < rank; ++d) {
      std::vector<std::uint64_t> places;
      for (const DcpChunk* box : boxes) places.push_back(box->offsets[d]);
      std::sort(places.begin(), places.end());
      const auto end = std::unique(places.begin(), places.end());
      const auto count = static_cast<std::size_t>(end - places.begin());
      if (count <= most) continue;
      best = d;
      most = count;
    }
    return best;
  }
  void sort_by_name(DcpMetadata& result) const {
    std::sort(result.tensors.begin(), result.tensors.end(),
              [](const auto& a, const auto& b) { return a.spec.name < b.spec.name; });
    std::sort(result.objects.begin(), result.objects.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    for (std::size_t i = 1; i < result.tensors.size(); ++i) {
      const std::string& name = result.tensors[i].spec.name;
      if (name == result.tensors[i - 1].spec.name) fail("tensor {} occurs twice", shown_name(name));
    }
  }

  const std::string& where_;
  Pickle pickle_;
  Places places_;
};

}  // namespace

DcpMetadata parse_dcp_metadata(std::span<const std::byte> bytes, const std::string& where) {
  return MetadataReader(bytes, where).read();
}

}  // namespace zaya
