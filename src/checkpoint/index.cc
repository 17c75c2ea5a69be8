// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/index.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "checkpoint/header_scanner.h"

namespace zaya {

namespace {

constexpr std::string_view kFormat = "zaya-checkpoint";
constexpr std::string_view kChecksumPrefix = "xxh3-128:";
constexpr std::string_view kTailBegin = ",\n\"checksum\": \"";
constexpr std::string_view kTailEnd = "\"\n}\n";
constexpr std::size_t kChecksumLength = kChecksumPrefix.size() + 32;
constexpr std::size_t kTailLength = kTailBegin.size() + kChecksumLength + kTailEnd.size();
constexpr std::string_view kStepPrefix = "step-";
constexpr std::size_t kStepDigits = 8;

Json json_of(const IndexFile& file) {
  Json out = Json::object();
  out.set("name", file.name);
  out.set("bytes", file.num_bytes);
  out.set("head", file.head_checksum);
  return out;
}

Json json_of(const IndexTensor& tensor, const CheckpointIndex& index) {
  Json shape = Json::array();
  for (const std::uint64_t dim : tensor.spec.shape) shape.push(static_cast<std::int64_t>(dim));
  Json slices = Json::array();
  for (const IndexSlice& slice : tensor.slices) {
    Json item = Json::object();
    item.set("file", index.files[slice.file].name);
    item.set("offset", slice.offset);
    item.set("extent", slice.extent);
    item.set("checksum", slice.checksum);
    slices.push(std::move(item));
  }
  Json out = Json::object();
  out.set("name", tensor.spec.name);
  out.set("dtype", name_of(tensor.spec.type));
  out.set("shape", std::move(shape));
  out.set("slices", std::move(slices));
  return out;
}

// Reads the parts of an index with checks; failures throw Error without a place, added by the
// caller.
[[noreturn]] void refuse(const std::string& what) { throw Error{ErrorKind::damaged, what}; }

Index size_at(const Json& object, std::string_view key) {
  const Json& value = object.at(key);
  if (!value.is_integer() || value.as_integer() < 0) {
    refuse(fmt::format("{} is not an integer from 0", key));
  }
  return value.as_integer();
}

std::string checksum_at(const Json& object, std::string_view key) {
  const std::string& text = object.at(key).as_string();
  const bool is_right =
      text.size() == kChecksumLength && text.starts_with(kChecksumPrefix) &&
      text.find_first_not_of("0123456789abcdef", kChecksumPrefix.size()) == std::string::npos;
  if (!is_right) refuse(fmt::format("{} is not a checksum", key));
  return text;
}

IndexFile read_file_entry(const Json& item) {
  IndexFile file{item.at("name").as_string(), size_at(item, "bytes"), checksum_at(item, "head")};
  if (file.name.find('/') != std::string::npos || !file.name.ends_with(".safetensors")) {
    refuse(fmt::format("{} is not the name of a tensor file", shown_name(file.name)));
  }
  return file;
}

IndexSlice read_slice(const Json& item, const std::vector<IndexFile>& files) {
  const std::string& name = item.at("file").as_string();
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const IndexFile& one) { return one.name == name; });
  if (file == files.end()) refuse(fmt::format("file {} is not listed", shown_name(name)));
  return {static_cast<std::size_t>(file - files.begin()), size_at(item, "offset"),
          size_at(item, "extent"), checksum_at(item, "checksum")};
}

// Slices in order that cover the first dim exactly and lie in different files.
void check_slices(const IndexTensor& tensor, std::size_t num_files) {
  std::vector<bool> is_used(num_files);
  const Index whole = tensor.spec.shape.empty() ? 1 : static_cast<Index>(tensor.spec.shape.front());
  Index at = 0;
  for (const IndexSlice& slice : tensor.slices) {
    if (slice.offset != at || slice.extent > whole - at) {
      refuse(fmt::format("its slices do not cover the first dim of {}", describe(tensor.spec)));
    }
    if (is_used[slice.file]) refuse("two of its slices lie in one file");
    is_used[slice.file] = true;
    at += slice.extent;
  }
  if (at != whole || tensor.slices.empty()) {
    refuse(fmt::format("its slices end at {} of {}", at, describe(tensor.spec)));
  }
}

IndexTensor read_tensor(const Json& item, const std::vector<IndexFile>& files) {
  IndexTensor tensor;
  tensor.spec.name = item.at("name").as_string();
  try {
    const std::string& type_name = item.at("dtype").as_string();
    const std::optional<StorageType> type = storage_type_from_name(type_name);
    if (!type) refuse(fmt::format("unknown dtype {}", shown_name(type_name)));
    tensor.spec.type = *type;
    for (const Json& dim : item.at("shape").items()) {
      if (!dim.is_integer() || dim.as_integer() < 0) refuse("shape is not a list of sizes");
      tensor.spec.shape.push_back(static_cast<std::uint64_t>(dim.as_integer()));
    }
    if (!checked_num_bytes(tensor.spec)) refuse("its size is impossible");
    for (const Json& slice : item.at("slices").items()) {
      tensor.slices.push_back(read_slice(slice, files));
    }
    check_slices(tensor, files.size());
  } catch (const Error& error) {
    refuse(fmt::format("tensor {}: {}", shown_name(tensor.spec.name), error.message()));
  }
  return tensor;
}

CheckpointIndex read_index(const Json& root) {
  if (root.at("format").as_string() != kFormat) refuse("is not the index of a checkpoint");
  if (const Index version = size_at(root, "version"); version != kCheckpointVersion) {
    refuse(fmt::format("has format version {}; this program reads version {}: use a newer one",
                       version, kCheckpointVersion));
  }
  CheckpointIndex index;
  index.step = size_at(root, "step");
  index.num_writers = size_at(root, "writers");
  for (const Json& item : root.at("files").items()) {
    index.files.push_back(read_file_entry(item));
    for (std::size_t i = 0; i + 1 < index.files.size(); ++i) {
      if (index.files[i].name == index.files.back().name) {
        refuse(fmt::format("file {} is listed twice", index.files[i].name));
      }
    }
  }
  for (const Json& item : root.at("tensors").items()) {
    index.tensors.push_back(read_tensor(item, index.files));
    const std::size_t count = index.tensors.size();
    const std::string& name = index.tensors.back().spec.name;
    if (count > 1 && index.tensors[count - 2].spec.name >= name) {
      refuse(fmt::format("tensor {} is out of order or listed twice", shown_name(name)));
    }
  }
  index.run_state = root.at("run_state");
  if (!index.run_state.is_object()) refuse("run_state is not an object");
  return index;
}

}  // namespace

const IndexTensor* CheckpointIndex::find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const IndexTensor& tensor, std::string_view wanted) { return tensor.spec.name < wanted; });
  return at == tensors.end() || at->spec.name != name ? nullptr : &*at;
}

std::string checksum_text(Hash128 hash) { return std::string(kChecksumPrefix) + to_hex(hash); }

std::vector<std::uint64_t> slice_shape(const TensorSpec& spec, const IndexSlice& slice) {
  std::vector<std::uint64_t> shape = spec.shape;
  if (!shape.empty()) shape.front() = static_cast<std::uint64_t>(slice.extent);
  return shape;
}

std::string index_text(const CheckpointIndex& index) {
  std::string text =
      fmt::format("{{\n\"format\": \"{}\",\n\"version\": {},\n\"step\": {},\n\"writers\": {}",
                  kFormat, kCheckpointVersion, index.step, index.num_writers);
  const char* separator = "\n";
  text += ",\n\"files\": [";
  for (const IndexFile& file : index.files) {
    text.append(std::exchange(separator, ",\n")).append(json_of(file).dump());
  }
  separator = "\n";
  text += "\n],\n\"tensors\": [";
  for (const IndexTensor& tensor : index.tensors) {
    text.append(std::exchange(separator, ",\n")).append(json_of(tensor, index).dump());
  }
  text += "\n],\n\"run_state\": " + index.run_state.dump();
  const std::string checksum = checksum_text(hash128(text));
  return text.append(kTailBegin).append(checksum).append(kTailEnd);
}

CheckpointIndex parse_index(std::string_view text, const std::string& where) {
  const auto damaged = [&](const std::string& what) {
    throw Error{ErrorKind::damaged, where + ": " + what};
  };
  if (text.size() < kTailLength) damaged("is cut off");
  const std::string_view body = text.substr(0, text.size() - kTailLength);
  const std::string tail =
      fmt::format("{}{}{}", kTailBegin, checksum_text(hash128(body)), kTailEnd);
  if (text.substr(body.size()) != tail) {
    damaged("its checksum does not fit its content: it was damaged, cut off or edited");
  }
  try {
    return read_index(Json::parse(text, where));
  } catch (const Error& error) {
    if (error.message().starts_with(where)) throw;
    damaged(error.message());
  }
  return {};
}

std::string step_name(Index step) {
  return fmt::format("{}{:0{}}", kStepPrefix, step, kStepDigits);
}

std::optional<Index> step_of_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  Index step = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (failure != std::errc{} || end != digits.data() + digits.size() || step < 0) {
    return std::nullopt;
  }
  return step_name(step) == name ? std::optional(step) : std::nullopt;
}

std::string writer_file_name(Index writer) { return fmt::format("rank-{:05}.safetensors", writer); }

}  // namespace zaya
