// SPDX-License-Identifier: Apache-2.0
#include "train/tensorboard.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/fault_point.h"
#include "base/hash.h"
#include "test_folder.h"
#include "train/metric_fields.h"

namespace zaya {

namespace {

StepMetrics step_metrics(Index step) {
  StepMetrics m;
  m.step = step;
  m.loss = 2.5;
  return m;
}

// The data of all records; the length of each is believed.
std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (std::size_t at = 0; at < file.size();) {
    std::uint64_t length = 0;
    REQUIRE(at + 16 <= file.size());
    std::memcpy(&length, &file[at], sizeof length);
    REQUIRE(length <= file.size() - at - 16);
    records.push_back(file.substr(at + 12, length));
    at += 16 + length;
  }
  return records;
}

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& name : list_directory(folder)) {
    if (is_event_file(name)) names.push_back(name);
  }
  return names;
}

}  // namespace

TEST_CASE("records are byte for byte those of a file that TensorBoard wrote") {
  const std::vector<EventScalar> first{{"train/loss", 10.5f}, {"train/lr", 3e-4f}};
  const std::vector<EventScalar> second{{"train/loss", 9.25f}};
  const std::vector<EventScalar> third{{"eval/perplexity/\u0441\u043B\u043E\u0432\u043E", 1234.0f}};
  const std::string file = version_record(1700000000.0) + scalars_record(1700000001.0, 0, first) +
                           scalars_record(1700000002.5, 1, second) +
                           scalars_record(1700000003.0, 300, third);
  CHECK(file == read_file(std::string(ZAYA_TEST_DATA) +
                          "/tensorboard/events.out.tfevents.1700000000.host"));
}

TEST_CASE("a restart is a session log with status START at its step") {
  const std::string data = records_of(restart_record(0.0, 300))[0];
  CHECK(data.substr(9) == std::string("\x10\xAC\x02\x3A\x02\x08\x01", 7));
}

TEST_CASE("a run writes its version and one record of all figures per step") {
  const TestFolder folder("tensorboard");
  EventFile file(folder.path(), 0);
  file.write(step_metrics(1));
  file.write(step_metrics(2));
  const std::vector<std::string> names = event_files(folder.path());
  REQUIRE(names.size() == 1);
  // Everything is with the system although the file is still open.
  const auto records = records_of(read_file(join_path(folder.path(), names[0])));
  REQUIRE(records.size() == 3);
  CHECK(records[0].find("brain.Event:2") != std::string::npos);
  CHECK(records[2].substr(9, 2) == std::string("\x10\x02"));
  for (const MetricField& field : metric_fields()) {
    const bool is_known = field.value(step_metrics(1)).has_value();
    CHECK((records[1].find(field.tag) != std::string::npos) == is_known);
  }
}

TEST_CASE("a resumed run begins a later file that takes back the steps to come") {
  const TestFolder folder("tensorboard");
  for (int i = 0; i < 5; ++i) EventFile(folder.path(), i).write(step_metrics(i + 1));
  const std::vector<std::string> names = event_files(folder.path());
  REQUIRE(names.size() == 5);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto records = records_of(read_file(join_path(folder.path(), names[i])));
    // Restarts within one second are still told apart, in order.
    REQUIRE(records.size() == (i == 0 ? 2u : 3u));
    if (i > 0) {
      const char restart[] = {0x10, static_cast<char>(i + 1), 0x3A, 0x02, 0x08, 0x01};
      CHECK(records[1].substr(9) == std::string_view(restart, sizeof restart));
    }
  }
}

TEST_CASE("names go on behind files of a clock that was ahead") {
  const TestFolder folder("tensorboard");
  const std::string ahead = join_path(folder.path(), "events.out.tfevents.4000000000.host.1.v2");
  FileWriter(ahead).close();
  CHECK(
      event_file_name(folder.path(), 1700000000.0).starts_with("events.out.tfevents.4000000001."));
}

TEST_CASE("a full disk or a missing folder ends the events and nothing else") {
  EventFile nowhere("/proc/none", 0);
  nowhere.write(step_metrics(1));
  const TestFolder folder("tensorboard");
  arm_fault_point("tensorboard.write=enospc@2");
  EventFile file(folder.path(), 0);
  file.write(step_metrics(1));
  arm_fault_point("");
  file.write(step_metrics(2));
  const std::string path = join_path(folder.path(), event_files(folder.path())[0]);
  CHECK(records_of(read_file(path)).size() == 1);
}

}  // namespace zaya
