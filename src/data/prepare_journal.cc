// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_journal.h"

#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

namespace zaya {

namespace {

Json to_json(const ReadReport& report) {
  Json json = Json::object();
  json.set("num_bad", report.num_bad);
  json.set("num_repaired", report.num_repaired);
  Json places = Json::array();
  for (const std::string& place : report.first_bad) places.push(place);
  json.set("first_bad", std::move(places));
  return json;
}

ReadReport report_from(const Json& json) {
  ReadReport report;
  report.num_bad = json.at("num_bad").as_integer();
  report.num_repaired = json.at("num_repaired").as_integer();
  for (const Json& place : json.at("first_bad").items()) {
    report.first_bad.push_back(place.as_string());
  }
  return report;
}

Json to_json(const ReadPosition& position) {
  Json json = Json::object();
  json.set("file", position.file);
  json.set("documents_in_file", position.documents_in_file);
  json.set("documents", position.documents);
  json.set("report_before_file", to_json(position.report_before_file));
  return json;
}

ReadPosition position_from(const Json& json) {
  return {json.at("file").as_integer(), json.at("documents_in_file").as_integer(),
          json.at("documents").as_integer(), report_from(json.at("report_before_file"))};
}

Json to_json(const ShardPosition& position, const std::vector<ShardInfo::Source>& sources) {
  Json json = Json::object();
  json.set("documents", position.documents);
  json.set("sequences", position.sequences);
  json.set("tokens", position.tokens);
  json.set("largest_id", position.largest_id);
  // Documents and tokens of each input file; paths and sizes are those of the inputs.
  Json counts = Json::array();
  for (const ShardInfo::Source& source : sources) {
    counts.push(source.documents);
    counts.push(source.tokens);
  }
  json.set("sources", std::move(counts));
  return json;
}

PrepareJournal journal_from(const Json& json) {
  PrepareJournal journal;
  journal.arguments_digest = json.at("arguments_digest").as_string();
  journal.inputs_digest = json.at("inputs_digest").as_string();
  journal.is_publishing = json.at("is_publishing").as_bool();
  journal.read = position_from(json.at("read"));
  journal.report = report_from(json.at("report"));
  journal.repeated_documents = json.at("repeated_documents").as_integer();
  journal.repeated_paragraphs = json.at("repeated_paragraphs").as_integer();
  for (const Json& shard : json.at("shards").items()) {
    journal.shards.push_back({shard.at("documents").as_integer(),
                              shard.at("sequences").as_integer(), shard.at("tokens").as_integer(),
                              shard.at("largest_id").as_integer()});
    journal.sources.emplace_back();
    const Json::Array& counts = shard.at("sources").items();
    for (std::size_t i = 0; i + 1 < counts.size(); i += 2) {
      journal.sources.back().push_back({"", 0, counts[i].as_integer(), counts[i + 1].as_integer()});
    }
  }
  return journal;
}

}  // namespace

void PrepareJournal::save(const std::string& path) const {
  Json json = Json::object();
  json.set("arguments_digest", arguments_digest);
  json.set("inputs_digest", inputs_digest);
  json.set("is_publishing", is_publishing);
  json.set("read", to_json(read));
  json.set("report", to_json(report));
  json.set("repeated_documents", repeated_documents);
  json.set("repeated_paragraphs", repeated_paragraphs);
  Json list = Json::array();
  for (std::size_t i = 0; i < shards.size(); ++i) list.push(to_json(shards[i], sources[i]));
  json.set("shards", std::move(list));
  write_file_atomically(path, json.dump() + "\n", "journal");
}

std::optional<PrepareJournal> load_journal(const std::string& path) {
  if (!is_file(path)) return std::nullopt;
  try {
    return journal_from(Json::parse(read_file(path), path));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::damaged) throw;
    log_warning(error.message() + "; the work is begun anew");
    return std::nullopt;
  }
}

}  // namespace zaya
