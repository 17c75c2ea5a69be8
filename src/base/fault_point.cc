// SPDX-License-Identifier: Apache-2.0
#include "base/fault_point.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <mutex>
#include <string>
#include <thread>

#include "base/error.h"

namespace zaya {

namespace {

struct Armed {
  std::mutex mutex;  // guards name, action, at, passes
  std::string name, action;
  long at = 1, passes = 0;
};

std::atomic<bool> g_is_armed{false};

Armed& armed() {
  static Armed instance;
  return instance;
}

long parse_number(std::string_view text, std::string_view whole) {
  long value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < 0) {
    throw Error{ErrorKind::usage, "run.fault_point: can't read a number in \"" +
                                      std::string(whole) + "\"; write NAME=ACTION@COUNT"};
  }
  return value;
}

}  // namespace

void arm_fault_point(std::string_view text) {
  Armed& a = armed();
  std::lock_guard lock(a.mutex);
  g_is_armed = false;
  if (text.empty()) return;
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    throw Error{ErrorKind::usage, "run.fault_point: \"" + std::string(text) +
                                      "\" has no '='; write NAME=ACTION@COUNT"};
  }
  const std::size_t at = text.find('@', equals);
  a.name = text.substr(0, equals);
  a.action = text.substr(equals + 1, at == std::string_view::npos ? at : at - equals - 1);
  a.at = at == std::string_view::npos ? 1 : parse_number(text.substr(at + 1), text);
  a.passes = 0;
  if (a.action.starts_with("sleep:")) {
    parse_number(std::string_view(a.action).substr(6), text);
  } else if (a.action != "kill" && a.action != "enospc" && a.action != "eio" &&
             a.action != "eio_once") {
    throw Error{ErrorKind::usage, "run.fault_point: unknown action \"" + a.action +
                                      "\"; one of kill, enospc, eio, eio_once, sleep:MS"};
  }
  g_is_armed = true;
}

int fault_errno(std::string_view name) {
  if (!g_is_armed.load(std::memory_order_relaxed)) return 0;
  Armed& a = armed();
  std::unique_lock lock(a.mutex);
  if (a.name != name || ++a.passes < a.at) return 0;
  if (a.action == "kill" && a.passes == a.at) _exit(137);
  if (a.action == "enospc") return ENOSPC;
  if (a.action == "eio" || (a.action == "eio_once" && a.passes == a.at)) return EIO;
  if (a.action.starts_with("sleep:")) {
    const long ms = std::stol(a.action.substr(6));
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  }
  return 0;
}

void fault_point(std::string_view name) { static_cast<void>(fault_errno(name)); }

}  // namespace zaya
