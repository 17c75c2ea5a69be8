// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <tuple>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/header_scanner.h"

namespace zaya {

namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

[[noreturn]] void damaged(std::string_view where, const std::string& what) {
  throw Error{ErrorKind::damaged, fmt::format("{}: {}", where, what)};
}

// Number of elements, multiplied from the left; none when a product leaves 64 bits.
std::optional<std::uint64_t> checked_count(const TensorSpec& spec) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : spec.shape) {
    if (__builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  }
  return count;
}

std::optional<std::uint64_t> checked_bits(const TensorSpec& spec) {
  std::uint64_t bits = 0;
  const std::optional<std::uint64_t> count = checked_count(spec);
  if (!count || __builtin_mul_overflow(*count, bits_of(spec.type), &bits)) return std::nullopt;
  return bits;
}

void read_metadata(HeaderScanner& scanner, SafetensorsMetadata& metadata) {
  if (scanner.accept_null()) return;
  scanner.object([&](std::string key) { metadata.emplace_back(std::move(key), scanner.string()); });
}

// Notes that a member was seen; a second time is an error.
void mark_once(HeaderScanner& scanner, bool& is_seen, const char* member, std::string_view name) {
  if (is_seen)
    scanner.fail(fmt::format("{} of tensor {} is given twice", member, shown_name(name)));
  is_seen = true;
}

void read_offsets(HeaderScanner& scanner, SafetensorsEntry& entry) {
  int count = 0;
  scanner.array([&] {
    const std::uint64_t value = scanner.unsigned_integer();
    if (count == 0) entry.begin = value;
    if (count == 1) entry.end = value;
    ++count;
  });
  if (count != 2) {
    scanner.fail(fmt::format("data_offsets of tensor {} has {} numbers, not two",
                             shown_name(entry.spec.name), count));
  }
}

SafetensorsEntry read_entry(HeaderScanner& scanner, std::string name) {
  SafetensorsEntry entry;
  TensorSpec& spec = entry.spec;
  spec.name = std::move(name);
  bool has_dtype = false, has_shape = false, has_offsets = false;
  scanner.object([&](const std::string& member) {
    if (member == "dtype") {
      mark_once(scanner, has_dtype, "dtype", spec.name);
      const std::string type_name = scanner.string();
      const std::optional<StorageType> type = storage_type_from_name(type_name);
      if (!type) {
        scanner.fail(fmt::format("unknown dtype {} of tensor {}", shown_name(type_name),
                                 shown_name(spec.name)));
      }
      spec.type = *type;
    } else if (member == "shape") {
      mark_once(scanner, has_shape, "shape", spec.name);
      scanner.array([&] { spec.shape.push_back(scanner.unsigned_integer()); });
    } else if (member == "data_offsets") {
      mark_once(scanner, has_offsets, "data_offsets", spec.name);
      read_offsets(scanner, entry);
    } else {
      scanner.skip_value();
    }
  });
  const char* missing = !has_dtype     ? "dtype"
                        : !has_shape   ? "shape"
                        : !has_offsets ? "data_offsets"
                                       : nullptr;
  if (missing != nullptr) {
    scanner.fail(fmt::format("tensor {} has no {}", shown_name(spec.name), missing));
  }
  return entry;
}

SafetensorsHeader scan_header(std::string_view text, std::string_view where) {
  HeaderScanner scanner(text, where);
  SafetensorsHeader header;
  bool has_metadata = false;
  scanner.object([&](std::string name) {
    if (name == kMetadataKey) {
      if (has_metadata) scanner.fail("__metadata__ is given twice");
      has_metadata = true;
      read_metadata(scanner, header.metadata);
    } else {
      header.entries.push_back(read_entry(scanner, std::move(name)));
    }
  });
  scanner.end();
  return header;
}

// Orders the entries by their bytes and by name; a name that occurs twice is an error.
void sort_entries(SafetensorsHeader& header, std::string_view where) {
  std::vector<SafetensorsEntry>& entries = header.entries;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.spec.name) < std::tie(b.begin, b.end, b.spec.name);
  });
  header.by_name.resize(entries.size());
  std::iota(header.by_name.begin(), header.by_name.end(), std::size_t{0});
  const auto name = [&](std::size_t i) -> const std::string& { return entries[i].spec.name; };
  std::sort(header.by_name.begin(), header.by_name.end(),
            [&](std::size_t a, std::size_t b) { return name(a) < name(b); });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const std::string& current = name(header.by_name[i]);
    if (current == name(header.by_name[i - 1])) {
      damaged(where, fmt::format("tensor {} occurs twice", shown_name(current)));
    }
  }
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : header.metadata) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end()) {
    damaged(where, fmt::format("metadata key {} occurs twice", shown_name(*twice)));
  }
}

// Do the entries cover the data exactly, each with the bytes that its shape needs?
void check_layout(const SafetensorsHeader& header, std::uint64_t file_size,
                  std::string_view where) {
  std::uint64_t at = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    const std::string name = shown_name(entry.spec.name);
    if (entry.end < entry.begin) {
      damaged(where, fmt::format("tensor {} ends at {}, before its begin {}", name, entry.end,
                                 entry.begin));
    }
    if (entry.begin != at) {
      damaged(where, fmt::format("tensor {} has the bytes [{}, {}) but the one before ends at {}: "
                                 "tensors must neither overlap nor leave a hole",
                                 name, entry.begin, entry.end, at));
    }
    const std::optional<std::uint64_t> bits = checked_bits(entry.spec);
    if (!bits) damaged(where, fmt::format("the size of tensor {} overflows 64 bits", name));
    if (*bits % 8 != 0) {
      damaged(where, fmt::format("tensor {} ends inside a byte: {} bits", name, *bits));
    }
    if (*bits / 8 != entry.end - entry.begin) {
      damaged(where, fmt::format("tensor {} is {} and needs {} bytes, but its offsets cover {}",
                                 name, describe(entry.spec), *bits / 8, entry.end - entry.begin));
    }
    at = entry.end;
  }
  const std::uint64_t data_bytes = file_size - header.data_offset;
  if (at != data_bytes) {
    damaged(where, fmt::format("holds {} bytes of data but its tensors need {}: the file is {}",
                               data_bytes, at,
                               at > data_bytes ? "cut off" : "followed by something else"));
  }
}

void append_entry(const TensorSpec& spec, std::uint64_t begin, std::uint64_t end,
                  std::string& text) {
  text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                      json_quote(spec.name), name_of(spec.type), fmt::join(spec.shape, ","), begin,
                      end);
}

std::string metadata_text(SafetensorsMetadata metadata) {
  std::sort(metadata.begin(), metadata.end());
  std::string text = fmt::format("\"{}\":{{", kMetadataKey);
  for (const auto& [key, value] : metadata) {
    if (text.back() != '{') text += ',';
    text += json_quote(key) + ":" + json_quote(value);
  }
  return text + "}";
}

void check_specs(std::span<const TensorSpec> specs, const SafetensorsMetadata& metadata) {
  const auto refuse = [](std::string_view name, const char* what) {
    throw Error{ErrorKind::usage,
                fmt::format("can't write tensor or metadata {}: {}", shown_name(name), what)};
  };
  std::vector<std::string_view> names, keys;
  std::size_t name_bytes = 0;
  for (const TensorSpec& spec : specs) {
    names.push_back(spec.name);
    name_bytes += spec.name.size();
    if (name_bytes > kMaxHeaderBytes) refuse(spec.name, "the header would be above its limit");
    if (spec.name == kMetadataKey) refuse(spec.name, "the name is reserved");
    const std::optional<std::uint64_t> bits = checked_bits(spec);
    if (!bits) refuse(spec.name, "its size overflows 64 bits");
    if (*bits % 8 != 0) refuse(spec.name, "it ends inside a byte");
  }
  for (const auto& [key, value] : metadata) {
    keys.push_back(key);
    if (!is_valid_utf8(value)) refuse(key, "the value is not valid UTF-8");
  }
  for (std::vector<std::string_view>* list : {&names, &keys}) {
    std::sort(list->begin(), list->end());
    const auto twice = std::adjacent_find(list->begin(), list->end());
    if (twice != list->end()) refuse(*twice, "the name occurs twice");
    for (const std::string_view name : *list) {
      if (!is_valid_utf8(name)) refuse(name, "the name is not valid UTF-8");
    }
  }
}

}  // namespace

std::string describe(const TensorSpec& spec) {
  // Foreign shapes have any length; a message shows the beginning.
  constexpr std::size_t kShown = 8;
  const std::span<const std::uint64_t> dims(spec.shape);
  return fmt::format("{} [{}{}]", name_of(spec.type),
                     fmt::join(dims.first(std::min(kShown, dims.size())), ", "),
                     dims.size() > kShown ? ", ..." : "");
}

std::vector<std::uint64_t> storage_shape(const Shape& shape) {
  std::vector<std::uint64_t> dims;
  for (const Index dim : shape.dims()) dims.push_back(static_cast<std::uint64_t>(dim));
  return dims;
}

std::optional<std::uint64_t> checked_num_bytes(const TensorSpec& spec) {
  const std::optional<std::uint64_t> bits = checked_bits(spec);
  if (!bits || *bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}

std::uint64_t element_count(const TensorSpec& spec) {
  const std::optional<std::uint64_t> count = checked_count(spec);
  ZAYA_CHECK(count.has_value(), spec.name);
  return *count;
}

std::uint64_t num_bytes_of(const TensorSpec& spec) {
  const std::optional<std::uint64_t> bits = checked_bits(spec);
  ZAYA_CHECK(bits.has_value(), spec.name);
  return *bits / 8;
}

void read_stored_tensor(const StoredTensor& stored, Tensor out, std::string_view where) {
  const TensorSpec& spec = stored.spec;
  if (spec.shape != storage_shape(out.shape())) {
    damaged(where, fmt::format("tensor {} is {} but {} is needed", shown_name(spec.name),
                               describe(spec), describe(ConstTensor(out))));
  }
  if (!is_convertible(spec.type, out.dtype())) {
    damaged(where, fmt::format("tensor {} is {} and can't be read as {}", shown_name(spec.name),
                               name_of(spec.type), name_of(out.dtype())));
  }
  convert_elements(spec.type, stored.bytes, out);
}

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name.begin(), by_name.end(), name,
      [&](std::size_t i, std::string_view wanted) { return entries[i].spec.name < wanted; });
  if (at == by_name.end() || entries[*at].spec.name != name) return nullptr;
  return &entries[*at];
}

std::uint64_t safetensors_data_offset(std::span<const std::byte> first_bytes,
                                      std::uint64_t file_size, std::string_view where) {
  if (file_size < 8) {
    damaged(where, fmt::format("has {} bytes; a safetensors file has at least 8", file_size));
  }
  ZAYA_CHECK(first_bytes.size() >= 8);
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<std::uint64_t>(first_bytes[i]);
  if (length > kMaxHeaderBytes) {
    damaged(where, fmt::format("states a header of {} bytes, above the limit of {}: not a "
                               "safetensors file, or damaged",
                               length, kMaxHeaderBytes));
  }
  if (8 + length > file_size) {
    damaged(where, fmt::format("states a header of {} bytes but has only {} bytes after it states "
                               "so: cut off, or not a safetensors file",
                               length, file_size - 8));
  }
  return 8 + length;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, std::uint64_t file_size,
                                    std::string_view where) {
  const std::uint64_t data_offset = safetensors_data_offset(bytes, file_size, where);
  ZAYA_CHECK(bytes.size() >= data_offset);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, data_offset - 8);
  if (!is_valid_utf8(text)) damaged(where, "the header is not valid UTF-8");
  SafetensorsHeader header = scan_header(text, where);
  header.data_offset = data_offset;
  sort_entries(header, where);
  check_layout(header, file_size, where);
  return header;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(path), header_(parse_safetensors(file_.bytes(), file_.bytes().size(), path)) {}

StoredTensor SafetensorsFile::tensor(const SafetensorsEntry& entry) const {
  return {entry.spec,
          file_.bytes().subspan(header_.data_offset + entry.begin, entry.end - entry.begin)};
}

StoredTensor SafetensorsFile::tensor(std::string_view name) const {
  const SafetensorsEntry* entry = header_.find(name);
  if (entry == nullptr) damaged(path(), fmt::format("has no tensor {}", shown_name(name)));
  return tensor(*entry);
}

SafetensorsPlan plan_safetensors(std::span<const TensorSpec> specs,
                                 const SafetensorsMetadata& metadata) {
  check_specs(specs, metadata);
  SafetensorsPlan plan;
  plan.order.resize(specs.size());
  plan.begin.resize(specs.size());
  std::iota(plan.order.begin(), plan.order.end(), std::size_t{0});
  std::sort(plan.order.begin(), plan.order.end(), [&](std::size_t a, std::size_t b) {
    if (specs[a].type != specs[b].type) return specs[a].type > specs[b].type;
    return specs[a].name < specs[b].name;
  });
  std::string text = "{";
  if (!metadata.empty()) text += metadata_text(metadata);
  std::uint64_t at = 0;
  for (const std::size_t i : plan.order) {
    plan.begin[i] = at;
    if (__builtin_add_overflow(at, num_bytes_of(specs[i]), &at)) {
      throw Error{ErrorKind::usage, "can't write a safetensors file: its size overflows 64 bits"};
    }
    if (text.size() > 1) text += ',';
    append_entry(specs[i], plan.begin[i], at, text);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes) {
    throw Error{ErrorKind::usage, fmt::format("can't write a safetensors file: its header would "
                                              "have {} bytes, above the limit of {}",
                                              text.size(), kMaxHeaderBytes)};
  }
  for (int i = 0; i < 8; ++i) {
    plan.head += static_cast<char>((static_cast<std::uint64_t>(text.size()) >> (8 * i)) & 0xff);
  }
  plan.head += text;
  plan.file_size = plan.head.size() + at;
  return plan;
}

void write_safetensors(const std::string& path, std::span<const TensorSpec> specs,
                       const SafetensorsMetadata& metadata,
                       FunctionRef<void(std::size_t i, FileWriter& writer)> emit,
                       const std::string& fault_name) {
  const SafetensorsPlan plan = plan_safetensors(specs, metadata);
  const std::string partial = path + ".partial";
  try {
    FileWriter writer(partial, fault_name);
    writer.write(plan.head);
    for (const std::size_t i : plan.order) {
      emit(i, writer);
      const std::uint64_t expected = plan.head.size() + plan.begin[i] + num_bytes_of(specs[i]);
      ZAYA_CHECK(writer.position() == static_cast<std::int64_t>(expected), specs[i].name);
    }
    writer.sync();
    writer.close();
    rename_durably(partial, path);
  } catch (...) {
    std::remove(partial.c_str());
    throw;
  }
}

void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  std::vector<TensorSpec> specs;
  for (const StoredTensor& tensor : tensors) specs.push_back(tensor.spec);
  write_safetensors(path, specs, metadata, [&](std::size_t i, FileWriter& writer) {
    writer.write(tensors[i].bytes.data(), tensors[i].bytes.size());
  });
}

}  // namespace zaya
