// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/content.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/publish.h"

namespace zaya {

namespace {

// Members of all objects sorted, so that equal values have equal texts.
Json canonical(const Json& value) {
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& item : value.items()) out.push(canonical(item));
    return out;
  }
  if (!value.is_object()) return value;
  Json::Object members;
  for (const auto& [key, member] : value.members()) members.emplace_back(key, canonical(member));
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return Json(std::move(members));
}

// The step folder that `path` stands for, or "" when it holds no checkpoints.
std::string checkpoint_at(const std::string& path) {
  if (base_name(path).ends_with(".partial")) {
    throw Error{ErrorKind::damaged, path + ": an unfinished save, not a checkpoint"};
  }
  if (step_of_name(base_name(path)) || is_file(join_path(path, kIndexName))) return path;
  const std::string folder = checkpoints_folder(path);
  if (folder == path && list_steps(path).empty()) return "";
  const std::string newest = find_newest_checkpoint(path);
  if (newest.empty()) throw Error{ErrorKind::damaged, folder + ": holds no checkpoint"};
  return newest;
}

}  // namespace

Content::Content(const std::string& path) : path_(path) {
  if (path_kind(path) == PathKind::absent) {
    throw Error{ErrorKind::usage, path + ": no such file or folder"};
  }
  if (!is_directory(path)) {
    files_.emplace_back(path);
    add_files(files_);
    return;
  }
  if (const std::string step_folder = checkpoint_at(path); !step_folder.empty()) {
    kind_ = Kind::checkpoint;
    path_ = step_folder;
    reader_.emplace(step_folder);
    add_checkpoint();
    return;
  }
  if (!HfFolder::is_one(path)) {
    throw Error{ErrorKind::usage,
                path + ": holds neither checkpoints (step-*) nor .safetensors files"};
  }
  kind_ = Kind::model_folder;
  folder_.emplace(path);
  add_files(folder_->files());
}

void Content::add_files(const std::vector<SafetensorsFile>& files) {
  for (const SafetensorsFile& file : files) {
    for (const SafetensorsEntry& entry : file.entries()) {
      StoredTensor stored = file.tensor(entry);
      tensors_.push_back({std::move(stored.spec), {stored.bytes}});
    }
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const auto& a, const auto& b) { return a.spec.name < b.spec.name; });
}

void Content::add_checkpoint() {
  const CheckpointIndex& index = reader_->index();
  for (const IndexFile& file : index.files) files_.emplace_back(join_path(path_, file.name));
  for (const IndexTensor& tensor : index.tensors) {
    ContentTensor& added = tensors_.emplace_back(ContentTensor{tensor.spec, {}});
    for (const IndexSlice& slice : tensor.slices) {
      added.pieces.push_back(files_[slice.file].tensor(tensor.spec.name).bytes);
    }
  }
}

std::vector<std::pair<std::string, Index>> Content::files() const {
  std::vector<std::pair<std::string, Index>> out;
  for (const SafetensorsFile& file : folder_ ? folder_->files() : files_) {
    out.emplace_back(base_name(file.path()), static_cast<Index>(file.file_size()));
  }
  return out;
}

Index Content::num_bytes() const {
  Index total = 0;
  for (const ContentTensor& tensor : tensors_) {
    for (const auto& piece : tensor.pieces) total += static_cast<Index>(piece.size());
  }
  return total;
}

SafetensorsMetadata Content::metadata() const {
  return kind_ == Kind::safetensors ? files_[0].header().metadata : SafetensorsMetadata{};
}

void Content::verify(ThreadPool* pool, const ReadObserver& observer) const {
  if (reader_) reader_->verify(pool, observer);
}

std::string content_digest(const Content& content, ThreadPool* pool) {
  const std::vector<ContentTensor>& tensors = content.tensors();
  std::vector<Hash128> hashes(tensors.size());
  const auto hash_one = [&](Index i, int) {
    Hasher hasher;
    for (const auto& piece : tensors[static_cast<std::size_t>(i)].pieces) {
      hasher.add(piece.data(), piece.size());
    }
    hashes[static_cast<std::size_t>(i)] = hasher.finish();
  };
  const Index num_tensors = static_cast<Index>(tensors.size());
  if (pool != nullptr) {
    pool->run(num_tensors, hash_one);
  } else {
    for (Index i = 0; i < num_tensors; ++i) hash_one(i, 0);
  }
  Hasher hasher;
  hasher.add("zaya-digest 1\n");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& spec = tensors[i].spec;
    hasher.add(fmt::format("{} {} [{}] {}\n", json_quote(spec.name), name_of(spec.type),
                           fmt::join(spec.shape, ","), to_hex(hashes[i])));
  }
  if (const CheckpointReader* reader = content.reader()) {
    hasher.add(fmt::format("step {}\nstate {}\n", reader->step(),
                           canonical(lasting_state(reader->run_state())).dump()));
  }
  return checksum_text(hasher.finish());
}

}  // namespace zaya
