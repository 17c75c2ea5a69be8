// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/publish.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/reader.h"
#include "checkpoint/snapshot.h"

namespace zaya {

namespace {

void check_abandoned(const PublishArgs& args) {
  if (args.is_abandoned == nullptr || !args.is_abandoned->load()) return;
  throw Error{ErrorKind::hardware, fmt::format("the save of step {} was given up", args.step)};
}

std::vector<TensorSpec> specs_of(std::span<const NamedTensor> tensors) {
  std::vector<TensorSpec> specs;
  for (const NamedTensor& named : tensors) {
    specs.push_back(
        {named.name, storage_type_of(named.tensor.dtype()), storage_shape(named.tensor.shape())});
  }
  return specs;
}

// Checksum of a tensor's values; with a writer they are written too.
std::string pass_values(const PublishArgs& args, const ConstTensor& tensor, FileWriter* writer) {
  Hasher hasher;
  for_each_part(tensor, [&](const std::byte* data, std::size_t num_bytes) {
    check_abandoned(args);
    hasher.add(data, num_bytes);
    if (writer != nullptr) writer->write(data, num_bytes);
  });
  return checksum_text(hasher.finish());
}

IndexTensor index_entry(const TensorSpec& spec, std::string checksum) {
  const Index extent = spec.shape.empty() ? 1 : static_cast<Index>(spec.shape.front());
  return {spec, {{0, 0, extent, std::move(checksum)}}};
}

// Writes the tensors of this writer and returns the index that describes them.
CheckpointIndex write_tensors(const PublishArgs& args, const std::string& folder) {
  const std::vector<TensorSpec> specs = specs_of(args.tensors);
  const SafetensorsPlan plan = plan_safetensors(specs, {{"format", "pt"}});
  CheckpointIndex index;
  index.step = args.step;
  index.run_state = *args.run_state;
  index.files.push_back(
      {writer_file_name(0), static_cast<Index>(plan.file_size), checksum_text(hash128(plan.head))});
  FileWriter writer(join_path(folder, index.files[0].name), "checkpoint.tensors");
  writer.write(plan.head);
  for (const std::size_t i : plan.order) {
    index.tensors.push_back(
        index_entry(specs[i], pass_values(args, args.tensors[i].tensor, &writer)));
  }
  writer.sync();
  writer.close();
  std::sort(index.tensors.begin(), index.tensors.end(),
            [](const auto& a, const auto& b) { return a.spec.name < b.spec.name; });
  return index;
}

void write_index(const CheckpointIndex& index, const std::string& folder) {
  const std::string text = index_text(index);
  FileWriter writer(join_path(folder, kIndexName), "checkpoint.index");
  writer.write(text);
  writer.sync();
  writer.close();
  sync_directory(folder);
}

// Reads everything back from the device, as far as the system lets us.
void verify_written(const PublishArgs& args, const CheckpointIndex& index,
                    const std::string& folder) {
  fault_point("checkpoint.before_verify");
  const CheckpointReader reader(folder);
  reader.drop_cache();
  reader.verify(nullptr, [&](Index) { check_abandoned(args); });
  if (index_text(reader.index()) != index_text(index)) {
    throw Error{ErrorKind::hardware, folder + ": index.json reads back with other content"};
  }
}

// Does a complete checkpoint with the same content stand at `path`?
bool holds_same(const PublishArgs& args, const std::string& path) {
  try {
    const CheckpointReader reader(path);
    const CheckpointIndex& index = reader.index();
    if (index.tensors.size() != args.tensors.size()) return false;
    if (lasting_state(index.run_state) != lasting_state(*args.run_state)) return false;
    for (const NamedTensor& named : args.tensors) {
      const IndexTensor* known = index.find(named.name);
      const TensorSpec spec = specs_of(std::span(&named, 1)).front();
      const bool is_same = known != nullptr && known->spec == spec && known->slices.size() == 1 &&
                           known->slices[0].checksum == pass_values(args, named.tensor, nullptr);
      if (!is_same) return false;
    }
    reader.verify(nullptr, [&](Index) { check_abandoned(args); });
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::damaged) throw;
    log_warning(fmt::format("replacing a damaged checkpoint: {}", error.message()));
    return false;
  }
}

// Puts the folder `from` in place of `to`. Where both exist they change names in one operation if
// the file system can do that; what stood at `to` is removed last.
void put_in_place(const std::string& from, const std::string& to) {
  if (path_kind(to) == PathKind::absent) {
    rename_durably(from, to);
    return;
  }
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    sync_directory(directory_name(to));
    remove_all(from);
    return;
  }
  const std::string old = to + ".old.partial";
  remove_all(old);
  rename_durably(to, old);
  rename_durably(from, to);
  remove_all(old);
}

}  // namespace

Json lasting_state(const Json& run_state) {
  Json out = Json::object();
  for (const auto& [key, value] : run_state.members()) {
    if (key != kVolatileKey) out.set(key, value);
  }
  return out;
}

Published publish_checkpoint(const PublishArgs& args) {
  const std::string path = join_path(args.folder, step_name(args.step));
  const std::string partial = path + ".partial";
  if (is_directory(path) && holds_same(args, path)) {
    return {path, total_bytes(args.tensors), true};
  }
  Published published{path, total_bytes(args.tensors)};
  const double began = monotonic_seconds();
  try {
    remove_all(partial);
    make_directories(partial);
    const CheckpointIndex index = write_tensors(args, partial);
    write_index(index, partial);
    published.write_seconds = monotonic_seconds() - began;
    verify_written(args, index, partial);
    check_abandoned(args);
    fault_point("checkpoint.before_rename");
    put_in_place(partial, path);
    fault_point("checkpoint.after_rename");
  } catch (const Error&) {
    try {
      remove_all(partial);
    } catch (const Error& error) {
      log_warning(fmt::format("an unfinished save stays behind: {}", error.message()));
    }
    throw;
  }
  return published;
}

}  // namespace zaya
