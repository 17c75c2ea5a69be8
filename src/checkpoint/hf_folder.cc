// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hf_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/header_scanner.h"

namespace zaya {

namespace {

constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexFileName = "model.safetensors.index.json";
constexpr std::string_view kExtension = ".safetensors";

[[noreturn]] void damaged(const std::string& where, const std::string& what) {
  throw Error{ErrorKind::damaged, where + ": " + what};
}

using WeightMap = std::vector<std::pair<std::string, std::string>>;

// Tensor name -> shard, names ascending.
WeightMap read_weight_map(const std::string& index_path) {
  const Json root = Json::parse(read_file(index_path), index_path);
  WeightMap map;
  const Json* weight_map = root.is_object() ? root.find("weight_map") : nullptr;
  if (weight_map == nullptr || !weight_map->is_object()) {
    damaged(index_path, "has no object weight_map");
  }
  for (const auto& [name, shard] : weight_map->members()) {
    if (!shard.is_string()) {
      damaged(index_path,
              fmt::format("weight_map of tensor {} is not a file name", shown_name(name)));
    }
    const std::string& file = shard.as_string();
    if (file.find('/') != std::string::npos || file == ".." || file.empty() ||
        !file.ends_with(kExtension)) {
      damaged(index_path, fmt::format("tensor {} lies in {}, which is not the name of a "
                                      ".safetensors file in this folder",
                                      shown_name(name), shown_name(file)));
    }
    map.emplace_back(name, file);
  }
  std::sort(map.begin(), map.end());
  return map;
}

// The different shards of a map, ascending; each must be there.
std::vector<std::string> shards_of(const WeightMap& map, const std::string& folder,
                                   const std::string& index_path) {
  std::vector<std::string> shards;
  for (const auto& [name, shard] : map) shards.push_back(shard);
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  for (const std::string& shard : shards) {
    if (is_file(join_path(folder, shard))) continue;
    const auto user = std::find_if(map.begin(), map.end(),
                                   [&](const auto& entry) { return entry.second == shard; });
    damaged(index_path, fmt::format("shard {} is missing; it should hold tensor {}", shard,
                                    shown_name(user->first)));
  }
  return shards;
}

std::vector<std::string> safetensors_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& name : list_directory(folder)) {
    if (name.ends_with(kExtension) && is_file(join_path(folder, name))) names.push_back(name);
  }
  return names;
}

}  // namespace

bool HfFolder::is_one(const std::string& path) {
  return is_directory(path) &&
         (is_file(join_path(path, kIndexFileName)) || !safetensors_names(path).empty());
}

HfFolder::HfFolder(std::string path) : path_(std::move(path)) {
  const std::string index_path = join_path(path_, kIndexFileName);
  if (!is_file(index_path)) {
    // Files beside model.safetensors (optimizer state, test values) are not part of the model.
    std::vector<std::string> names = is_file(join_path(path_, kSingleName))
                                         ? std::vector<std::string>{std::string(kSingleName)}
                                         : safetensors_names(path_);
    if (names.empty()) throw Error{ErrorKind::usage, path_ + ": holds no .safetensors file"};
    open_files(std::move(names));
    index_tensors();
    return;
  }
  const WeightMap map = read_weight_map(index_path);
  const bool is_single_listed =
      std::any_of(map.begin(), map.end(), [](const auto& e) { return e.second == kSingleName; });
  if (is_file(join_path(path_, kSingleName)) && !is_single_listed) {
    log_warning(fmt::format("{}: holds {} and an index of other shards; {} is read", path_,
                            kSingleName, kSingleName));
    open_files({std::string(kSingleName)});
    index_tensors();
    return;
  }
  open_files(shards_of(map, path_, index_path));
  index_tensors();
  check_weight_map(index_path, map);
}

void HfFolder::open_files(std::vector<std::string> names) {
  for (const std::string& name : names) files_.emplace_back(join_path(path_, name));
}

void HfFolder::index_tensors() {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const SafetensorsEntry& entry : files_[i].entries()) {
      places_.push_back({entry.spec.name, i, &entry});
    }
  }
  std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
    return std::tie(a.name, a.file) < std::tie(b.name, b.file);
  });
  for (std::size_t i = 1; i < places_.size(); ++i) {
    if (places_[i].name == places_[i - 1].name) {
      damaged(path_,
              fmt::format("tensor {} lies in two files: {} and {}", shown_name(places_[i].name),
                          base_name(files_[places_[i - 1].file].path()),
                          base_name(files_[places_[i].file].path())));
    }
  }
}

void HfFolder::check_weight_map(const std::string& index_path, const WeightMap& map) const {
  for (const auto& [name, shard] : map) {
    const Place* place = place_of(name);
    if (place == nullptr || base_name(files_[place->file].path()) != shard) {
      damaged(index_path,
              fmt::format("tensor {} is not in {}{}", shown_name(name), shard,
                          place == nullptr ? std::string()
                                           : " but in " + base_name(files_[place->file].path())));
    }
  }
  // All listed names are there; what remains is not listed.
  std::size_t i = 0;
  for (const Place& place : places_) {
    if (i < map.size() && map[i].first == place.name) {
      ++i;
    } else {
      damaged(index_path,
              fmt::format("tensor {} of {} is not in the weight_map", shown_name(place.name),
                          base_name(files_[place.file].path())));
    }
  }
}

const HfFolder::Place* HfFolder::place_of(std::string_view name) const {
  const auto at = std::lower_bound(
      places_.begin(), places_.end(), name,
      [](const Place& place, std::string_view wanted) { return place.name < wanted; });
  return at == places_.end() || at->name != name ? nullptr : &*at;
}

std::vector<std::string> HfFolder::names() const {
  std::vector<std::string> names;
  for (const Place& place : places_) names.push_back(place.name);
  return names;
}

std::optional<StoredTensor> HfFolder::find(std::string_view name) const {
  const Place* place = place_of(name);
  if (place == nullptr) return std::nullopt;
  return files_[place->file].tensor(*place->entry);
}

StoredTensor HfFolder::tensor(std::string_view name) const {
  std::optional<StoredTensor> found = find(name);
  if (!found) damaged(path_, fmt::format("has no tensor {}", shown_name(name)));
  return *std::move(found);
}

}  // namespace zaya
