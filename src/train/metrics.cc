// SPDX-License-Identifier: Apache-2.0
#include "train/metrics.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

namespace zaya {

namespace {

// Length of the longest prefix of whole lines with steps <= last_step, in order.
struct Prefix {
  std::size_t num_bytes = 0;
  Index step = 0;
};

Prefix valid_prefix(std::string_view text, const std::string& path, Index last_step) {
  Prefix prefix;
  Index line_number = 0;
  while (true) {
    const std::size_t end = text.find('\n', prefix.num_bytes);
    if (end == std::string_view::npos) return prefix;
    ++line_number;
    const std::string_view line = text.substr(prefix.num_bytes, end - prefix.num_bytes);
    Index step = 0;
    try {
      step = Json::parse(line, path).at("step").as_integer();
    } catch (const Error&) {
      // A torn line can be last only; anything behind it was written later and is not trusted.
      log_warning(
          fmt::format("{}:{}: damaged line; it and what follows are cut off", path, line_number));
      return prefix;
    }
    if (step > last_step) return prefix;
    if (step != prefix.step + 1) {
      throw Error{ErrorKind::damaged,
                  fmt::format("{}:{}: step {} follows step {}; the file was changed by something "
                              "else: move it away to go on without its history",
                              path, line_number, step, prefix.step)};
    }
    prefix = {end + 1, step};
  }
}

Json real_or_null(double x) { return std::isfinite(x) ? Json(x) : Json(); }

}  // namespace

Index last_metrics_step(const std::string& path) {
  if (!is_file(path)) return 0;
  return valid_prefix(read_file(path), path, INT64_MAX).step;
}

std::vector<double> last_losses(const std::string& path, Index phase, Index count) {
  const std::string text = is_file(path) ? read_file(path) : "";
  std::vector<double> losses;
  std::size_t end = text.rfind('\n');
  while (end != std::string::npos && end > 0 && static_cast<Index>(losses.size()) < count) {
    const std::size_t before = text.rfind('\n', end - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    const Json row = Json::parse(std::string_view(text).substr(begin, end - begin), path);
    if (row.at("phase").as_integer() != phase) break;
    if (!row.at("loss").is_null()) losses.push_back(row.at("loss").as_real());
    end = before;
  }
  std::reverse(losses.begin(), losses.end());
  return losses;
}

MetricsFile::MetricsFile(std::string path, Index last_step) : path_(std::move(path)) {
  if (is_file(path_)) {
    const std::string text = read_file(path_);
    const Prefix prefix = valid_prefix(text, path_, last_step);
    if (prefix.num_bytes < text.size() &&
        ::truncate(path_.c_str(), static_cast<off_t>(prefix.num_bytes)) != 0) {
      throw Error{ErrorKind::hardware,
                  fmt::format("{}: can't cut off: {}", path_, std::strerror(errno))};
    }
  }
  writer_ = std::make_unique<FileWriter>(path_, "metrics", true);
}

void MetricsFile::write(const StepMetrics& m) {
  if (!writer_) return;
  Json line = Json::object();
  line.set("step", m.step);
  line.set("tokens", m.tokens);
  line.set("loss", real_or_null(m.loss));
  line.set("grad_norm", real_or_null(m.grad_norm));
  line.set("learning_rate", m.learning_rate);
  line.set("batch_tokens", m.batch_tokens);
  line.set("sequence_length", m.sequence_length);
  line.set("step_seconds", m.step_seconds);
  line.set("tokens_per_second", m.tokens_per_second);
  line.set("flops_per_second", m.flops_per_second);
  line.set("peak_fraction", m.peak_fraction ? Json(*m.peak_fraction) : Json());
  line.set("expert_load_entropy", m.expert_load_entropy);
  line.set("expert_load_max", m.expert_load_max);
  line.set("skipped_tokens", m.skipped_tokens);
  line.set("is_skipped", m.is_skipped);
  line.set("data_seconds", m.data_seconds);
  line.set("checkpoint_seconds", m.checkpoint_seconds);
  line.set("phase", m.phase);
  if (m.validation_loss) line.set("validation_loss", *m.validation_loss);
  line.set("time_unix", unix_seconds());
  try {
    writer_->write(line.dump() + "\n");
    writer_->flush();
  } catch (const Error& error) {
    log_error(error.message() + "; training goes on without metrics");
    writer_.reset();
  }
}

std::string to_line(const StepMetrics& m) {
  std::string line = fmt::format("step {} loss {:.4f} grad_norm {:.3f} learning_rate {:.2e}",
                                 m.step, m.loss, m.grad_norm, m.learning_rate);
  line += fmt::format(" tokens_per_second {:.0f}", m.tokens_per_second);
  if (m.peak_fraction) line += fmt::format(" peak_fraction {:.2f}", *m.peak_fraction);
  line += fmt::format(" expert_load_entropy {:.3f}", m.expert_load_entropy);
  if (m.is_skipped) line += " skipped";
  if (m.validation_loss) line += fmt::format(" validation_loss {:.4f}", *m.validation_loss);
  return line;
}

}  // namespace zaya
