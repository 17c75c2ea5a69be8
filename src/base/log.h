// SPDX-License-Identifier: Apache-2.0
//
// Log lines for people: one event a line on stderr, and in the run folder's log.txt when one is
// open. Thread-safe. stdout belongs to results.
#pragma once

#include <string>
#include <string_view>

namespace zaya {

enum class LogLevel { debug, info, warning, error };

// Lines below this level are dropped (default: info). Set once, in main.
void set_log_level(LogLevel level);

// Writes "text" (info) or "warning: text" and so on. The text has no line end.
void log_line(LogLevel level, std::string_view text);
inline void log_debug(std::string_view text) { log_line(LogLevel::debug, text); }
inline void log_info(std::string_view text) { log_line(LogLevel::info, text); }
inline void log_warning(std::string_view text) { log_line(LogLevel::warning, text); }
inline void log_error(std::string_view text) { log_line(LogLevel::error, text); }

// From now on every line is appended to this file too, with a time stamp; an empty path ends that.
// A file that can't be written is reported once on stderr and training goes on.
void set_log_file(const std::string& path);

// True when stderr is a terminal.
bool stderr_is_terminal();

// A line on a terminal that the next one replaces (progress); log lines appear above it. An empty
// text removes it. Does nothing when stderr is not a terminal.
void set_status_line(std::string_view text);

}  // namespace zaya
