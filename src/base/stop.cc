// SPDX-License-Identifier: Apache-2.0
#include "base/stop.h"

#include <signal.h>

#include <atomic>

namespace zaya {

namespace {

std::atomic<int> g_stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
  int none = 0;
  g_stop_signal.compare_exchange_strong(none, signal);
}

}  // namespace

void install_stop_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int stop_signal() { return g_stop_signal.load(); }

void set_stop_signal(int signal) { g_stop_signal.store(signal); }

}  // namespace zaya
