// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_archive.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/checksums.h"
#include "base/error.h"
#include "checkpoint/header_scanner.h"
#include "checkpoint/pickle.h"

namespace zaya {

namespace {

constexpr std::size_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56;
constexpr std::size_t kEntryBytes = 46, kLocalBytes = 30;
constexpr std::uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr std::uint32_t kSee64 = 0xffffffff;  // the value stands in a ZIP64 field
constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxJsonValues = 10'000;

struct StorageClass {
  std::string_view name;
  StorageType type;
};
constexpr StorageClass kStorageClasses[] = {
    {"torch DoubleStorage", StorageType::f64},       {"torch FloatStorage", StorageType::f32},
    {"torch HalfStorage", StorageType::f16},         {"torch BFloat16Storage", StorageType::bf16},
    {"torch LongStorage", StorageType::i64},         {"torch IntStorage", StorageType::i32},
    {"torch ShortStorage", StorageType::i16},        {"torch CharStorage", StorageType::i8},
    {"torch ByteStorage", StorageType::u8},          {"torch BoolStorage", StorageType::boolean},
    {"torch ComplexFloatStorage", StorageType::c64},
};
constexpr std::string_view kRebuild = "torch._utils _rebuild_tensor_v2";

// Classes and functions that may occur in data.pkl.
constexpr auto kAllowed = [] {
  std::array<std::string_view, std::size(kStorageClasses) + 2> names{};
  std::size_t count = 0;
  for (const StorageClass& each : kStorageClasses) names[count++] = each.name;
  names[count++] = kRebuild;
  names[count++] = "collections OrderedDict";
  return names;
}();

template <class... Args>
[[noreturn]] void damaged(std::string_view where, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Error{ErrorKind::damaged,
              fmt::format("{}: {}", where, fmt::format(format, std::forward<Args>(args)...))};
}

}  // namespace

template <class T>
T TorchArchive::load(std::uint64_t at) const {
  if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) damaged(where_, "the archive is cut");
  T value;
  std::memcpy(&value, bytes_.data() + at, sizeof value);
  return value;
}

TorchArchive::TorchArchive(std::span<const std::byte> bytes, std::string where)
    : bytes_(bytes), where_(std::move(where)) {
  read_directory();
  if (has("byteorder")) {
    const std::span<const std::byte> order = entry("byteorder");
    const std::string_view text(reinterpret_cast<const char*>(order.data()), order.size());
    if (text != "little") damaged(where_, "holds big-endian values, which are not read here");
  }
}

void TorchArchive::read_directory() {
  if (bytes_.size() < kEndBytes || load<std::uint32_t>(bytes_.size() - kEndBytes) != kEndMark) {
    damaged(where_, "is no archive of torch.save: no end of a ZIP directory at its end");
  }
  const std::size_t end = bytes_.size() - kEndBytes;
  std::uint64_t count = load<std::uint16_t>(end + 10);
  std::uint64_t at = load<std::uint32_t>(end + 16), directory_end = end;
  if (count == 0xffff || at == kSee64) {
    if (end < kLocatorBytes || load<std::uint32_t>(end - kLocatorBytes) != kLocatorMark) {
      damaged(where_, "has no ZIP64 directory where it needs one");
    }
    const auto end64 = load<std::uint64_t>(end - kLocatorBytes + 8);
    if (end64 > end || end - end64 < kEnd64Bytes || load<std::uint32_t>(end64) != kEnd64Mark) {
      damaged(where_, "has a damaged ZIP64 directory");
    }
    count = load<std::uint64_t>(end64 + 32);
    at = load<std::uint64_t>(end64 + 48);
    directory_end = end64;
  }
  // `count` is only a bound: each entry takes bytes of the directory.
  for (; count > 0; --count) {
    if (at > directory_end || directory_end - at < kEntryBytes) {
      damaged(where_, "has a ZIP directory that is cut");
    }
    at = read_entry(static_cast<std::size_t>(at));
  }
}

// Where the next entry of the directory begins.
std::size_t TorchArchive::read_entry(std::size_t at) {
  if (load<std::uint32_t>(at) != kEntryMark) damaged(where_, "has a damaged ZIP directory");
  const auto name_bytes = load<std::uint16_t>(at + 28), extra_bytes = load<std::uint16_t>(at + 30);
  const auto comment_bytes = load<std::uint16_t>(at + 32);
  const std::size_t next = at + kEntryBytes + name_bytes + extra_bytes + comment_bytes;
  if (next > bytes_.size()) damaged(where_, "has a ZIP directory that is cut");
  std::string_view name(reinterpret_cast<const char*>(bytes_.data()) + at + kEntryBytes,
                        name_bytes);
  if (!is_valid_utf8(name)) damaged(where_, "has an entry whose name is not UTF-8");
  std::uint64_t sizes[] = {load<std::uint32_t>(at + 24), load<std::uint32_t>(at + 20),
                           load<std::uint32_t>(at + 42)};  // size, stored size, place
  // The ZIP64 field has, in this order, those values that did not fit.
  for (std::size_t x = at + kEntryBytes + name_bytes; x + 4 <= next - comment_bytes;) {
    const auto kind = load<std::uint16_t>(x), length = load<std::uint16_t>(x + 2);
    std::size_t field = x + 4;
    x = field + length;
    if (kind != 1 || x > next - comment_bytes) continue;
    for (std::uint64_t& size : sizes) {
      if (size != kSee64 || field + 8 > x) continue;
      size = load<std::uint64_t>(field);
      field += 8;
    }
  }
  if (load<std::uint16_t>(at + 10) != 0 || sizes[0] != sizes[1]) {
    damaged(where_, "has a compressed entry {}; torch.save stores them plainly", shown_name(name));
  }
  Entry entry{name, stored_bytes(sizes[2], sizes[0]), load<std::uint32_t>(at + 16)};
  entry.name.remove_prefix(std::min(name.find('/') + 1, name.size()));
  entries_.push_back(entry);
  return next;
}

std::span<const std::byte> TorchArchive::stored_bytes(std::uint64_t local_header,
                                                      std::uint64_t size) const {
  if (load<std::uint32_t>(local_header) != kLocalMark) {
    damaged(where_, "has a ZIP directory that points to no entry");
  }
  const std::uint64_t begin = local_header + kLocalBytes + load<std::uint16_t>(local_header + 26) +
                              load<std::uint16_t>(local_header + 28);
  if (begin > bytes_.size() || size > bytes_.size() - begin) {
    damaged(where_, "has an entry of {} bytes that leaves the archive", size);
  }
  return bytes_.subspan(begin, size);
}

bool TorchArchive::has(std::string_view name) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.name == name; });
}

std::span<const std::byte> TorchArchive::entry(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.name != name) continue;
    if (crc32(entry.bytes) == entry.checksum) return entry.bytes;
    damaged(where_, "the checksum of {} is wrong: its bytes changed after they were written",
            shown_name(name));
  }
  damaged(where_, "has no entry {}", shown_name(name));
}

namespace {

using Ref = Pickle::Ref;
using Kind = Pickle::Kind;

// Rows, columns and so on from a tuple of numbers.
std::vector<std::uint64_t> numbers_of(const Pickle& pickle, Ref tuple, std::string_view what,
                                      std::string_view where) {
  std::vector<std::uint64_t> numbers;
  for (const Ref item : pickle.items(tuple, Kind::tuple, what)) {
    const std::int64_t number = pickle.integer(item, what);
    if (number < 0) damaged(where, "{} has the entry {}", what, number);
    numbers.push_back(static_cast<std::uint64_t>(number));
  }
  return numbers;
}

void check_packed(const TensorSpec& spec, const std::vector<std::uint64_t>& strides,
                  std::string_view where) {
  if (strides.size() != spec.shape.size()) damaged(where, "its strides do not fit its size");
  std::uint64_t packed = 1;
  for (std::size_t d = spec.shape.size(); d-- > 0;) {
    if (spec.shape[d] > 1 && strides[d] != packed && element_count(spec) > 0) {
      damaged(where, "its values are not packed row by row, as those of checkpoints are");
    }
    packed *= spec.shape[d];
  }
}

// (storage): ("storage", class, key, place, number of elements).
std::span<const std::byte> storage_of(const Pickle& pickle, Ref storage,
                                      const TorchArchive& archive, StorageType& type) {
  const Ref id = pickle.persistent_id(storage, "the storage");
  const std::span<const Ref> parts = pickle.items(id, Kind::tuple, "the storage");
  if (parts.size() != 5 || pickle.text(parts[0], "the storage") != "storage") {
    damaged(archive.where(), "the storage is described in a way that is not known here");
  }
  const std::string_view name = pickle.name(parts[1], "the class of the storage");
  const auto* found = std::find_if(std::begin(kStorageClasses), std::end(kStorageClasses),
                                   [&](const StorageClass& each) { return each.name == name; });
  if (found == std::end(kStorageClasses)) damaged(archive.where(), "{} is no storage", name);
  type = found->type;
  const std::string key(pickle.text(parts[2], "the key of the storage"));
  const std::span<const std::byte> bytes = archive.entry("data/" + key);
  const std::uint64_t width = bits_of(type) / 8;
  const std::int64_t count = pickle.integer(parts[4], "the size of the storage");
  if (bytes.size() % width != 0 || count < 0 ||
      bytes.size() / width != static_cast<std::uint64_t>(count)) {
    damaged(archive.where(), "data/{} has {} bytes for {} values of {} bytes", shown_name(key),
            bytes.size(), count, width);
  }
  return bytes;
}

Json json_of(const Pickle& pickle, Ref value, int depth, std::size_t& budget,
             std::string_view where) {
  // Values may be shared and even hold themselves.
  if (depth > kMaxDepth || budget == 0)
    damaged(where, "its value is too deep or too large to show");
  --budget;
  const auto list_of = [&](Kind kind) {
    Json list = Json::array();
    for (const Ref item : pickle.items(value, kind, "it")) {
      list.push(json_of(pickle, item, depth + 1, budget, where));
    }
    return list;
  };
  switch (pickle.kind(value)) {
    case Kind::none: return {};
    case Kind::boolean: return pickle.boolean(value, "it");
    case Kind::integer: return pickle.integer(value, "it");
    case Kind::real: return pickle.real(value, "it");
    case Kind::text: return pickle.text(value, "it");
    case Kind::tuple: return list_of(Kind::tuple);
    case Kind::list: return list_of(Kind::list);
    case Kind::dict: break;
    default: damaged(where, "its value holds {}", describe(pickle.kind(value)));
  }
  Json object = Json::object();
  const std::span<const Ref> pairs = pickle.items(value, Kind::dict, "it");
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    object.set(pickle.text(pairs[i], "a key"),
               json_of(pickle, pairs[i + 1], depth + 1, budget, where));
  }
  return object;
}

}  // namespace

StoredTensor read_torch_tensor(const TorchArchive& archive) {
  const std::string& where = archive.where();
  const Pickle pickle(archive.entry("data.pkl"), kAllowed, where);
  if (pickle.class_of(pickle.root(), "the saved value") != kRebuild) {
    damaged(where, "holds no tensor");
  }
  const std::span<const Ref> arguments =
      pickle.items(pickle.arguments(pickle.root()), Kind::tuple, "the tensor");
  if (arguments.size() < 4) damaged(where, "the tensor is described in too few words");
  StoredTensor tensor;
  const std::span<const std::byte> storage =
      storage_of(pickle, arguments[0], archive, tensor.spec.type);
  tensor.spec.shape = numbers_of(pickle, arguments[2], "the size", where);
  const std::optional<std::uint64_t> num_bytes = checked_num_bytes(tensor.spec);
  if (!num_bytes) damaged(where, "has a size above any file");
  check_packed(tensor.spec, numbers_of(pickle, arguments[3], "the strides", where), where);
  const std::int64_t first = pickle.integer(arguments[1], "the place in the storage");
  const std::uint64_t width = bits_of(tensor.spec.type) / 8;
  if (first < 0 || static_cast<std::uint64_t>(first) > storage.size() / width ||
      *num_bytes > storage.size() - static_cast<std::uint64_t>(first) * width) {
    damaged(where, "needs {} bytes from value {} on, its storage has {}", *num_bytes, first,
            storage.size());
  }
  tensor.bytes = storage.subspan(static_cast<std::uint64_t>(first) * width, *num_bytes);
  return tensor;
}

Json read_torch_object(const TorchArchive& archive) {
  const Pickle pickle(archive.entry("data.pkl"), kAllowed, archive.where());
  std::size_t budget = kMaxJsonValues;
  return json_of(pickle, pickle.root(), 0, budget, archive.where());
}

}  // namespace zaya
