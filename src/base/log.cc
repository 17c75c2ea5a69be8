// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>

namespace zaya {

namespace {

// Output is process state like stderr itself; the mutex guards `file` and `status`.
struct Output {
  std::mutex mutex;
  std::FILE* file = nullptr;
  std::string status;
};

Output& output() {
  static Output instance;
  return instance;
}

std::atomic<LogLevel> g_level{LogLevel::info};

const char* prefix(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug: ";
    case LogLevel::info: return "";
    case LogLevel::warning: return "warning: ";
    case LogLevel::error: return "error: ";
  }
  return "";
}

void write_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// The status line cut to the terminal's width, so that it never wraps.
std::string fitted(const std::string& status) {
  winsize size{};
  const std::size_t width =
      ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79u;
  return status.substr(0, width);
}

constexpr std::string_view kClearLine = "\r\x1b[K";

}  // namespace

void set_log_level(LogLevel level) { g_level = level; }

bool stderr_is_terminal() {
  static const bool is_terminal = isatty(STDERR_FILENO) == 1;
  return is_terminal;
}

void log_line(LogLevel level, std::string_view text) {
  if (level < g_level.load()) return;
  Output& out = output();
  std::string line = prefix(level);
  line.append(text).append("\n");
  std::lock_guard lock(out.mutex);
  if (out.status.empty()) {
    write_stderr(line);
  } else {
    write_stderr(std::string(kClearLine) + line + fitted(out.status));
  }
  if (out.file != nullptr) {
    char stamp[32];
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ ", &parts);
    const bool is_written = std::fputs(stamp, out.file) >= 0 &&
                            std::fputs(line.c_str(), out.file) >= 0 && std::fflush(out.file) == 0;
    if (!is_written) {
      std::fclose(out.file);
      out.file = nullptr;
      write_stderr("warning: log file can't be written any more: " +
                   std::string(std::strerror(errno)) + "\n");
    }
  }
}

void set_log_file(const std::string& path) {
  Output& out = output();
  std::string problem;
  {
    std::lock_guard lock(out.mutex);
    if (out.file != nullptr) std::fclose(out.file);
    out.file = path.empty() ? nullptr : std::fopen(path.c_str(), "ae");
    if (!path.empty() && out.file == nullptr) {
      problem = path + ": log file can't be written: " + std::strerror(errno);
    }
  }
  if (!problem.empty()) log_warning(problem);
}

void set_status_line(std::string_view text) {
  if (!stderr_is_terminal()) return;
  Output& out = output();
  std::lock_guard lock(out.mutex);
  if (text.empty() && out.status.empty()) return;
  out.status = text;
  write_stderr(std::string(kClearLine) + fitted(out.status));
}

}  // namespace zaya
