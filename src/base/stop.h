// SPDX-License-Identifier: Apache-2.0
//
// Orderly stop. SIGTERM and SIGINT set a flag that long loops poll; the run saves and leaves. The
// flag is process state because a signal handler can reach nothing else.
#pragma once

namespace zaya {

// Installs the handlers for SIGTERM and SIGINT and ignores SIGPIPE. A second signal of the same
// kind does not kill the process: the save that is under way matters more.
void install_stop_handlers();

// The number of the first signal that asked to stop, or 0.
int stop_signal();

// As if the signal had arrived (tests), or 0 to forget it.
void set_stop_signal(int signal);

}  // namespace zaya
