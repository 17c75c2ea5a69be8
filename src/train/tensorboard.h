// SPDX-License-Identifier: Apache-2.0
//
// TensorBoard event files: the figures of each step as scalars, written by hand.
//
//   record   u64 length, u32 masked CRC-32C of these 8 bytes, data, u32 masked CRC-32C of data
//            (all little-endian; masked: rotated right by 15 bits, plus 0xa282ead8)
//   data     protobuf Event: 1 double wall_time, 2 int64 step (left out when 0),
//            3 string file_version (first record: brain.Event:2),
//            5 Summary { repeated 1 Value { 1 string tag, 2 float simple_value } },
//            7 SessionLog { 1 enum status: START is 1 }
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/types.h"
#include "train/metrics.h"

namespace zaya {

struct EventScalar {
  std::string tag;
  float value = 0;
};

// Whole records.
std::string version_record(double wall_time);
std::string scalars_record(double wall_time, Index step, std::span<const EventScalar> scalars);
// A run that begins anew at `step`: readers drop what earlier files say about it and later steps.
std::string restart_record(double wall_time, Index step);

// Name of a new event file: later in byte order than the event files that `folder` holds already,
// because readers take them in that order.
std::string event_file_name(const std::string& folder, double unix_time);
bool is_event_file(std::string_view name);

// One file per start of a run. Every step is handed to the system at once. What the disk refuses,
// the first file included, is reported once and training goes on.
class EventFile {
 public:
  // `last_step` is the step of the checkpoint that the run continues from, 0 for a fresh one.
  EventFile(const std::string& folder, Index last_step);
  void write(const StepMetrics& metrics);

 private:
  void append(std::string_view record);

  std::unique_ptr<FileWriter> writer_;  // null after a failure
};

}  // namespace zaya
