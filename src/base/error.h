// SPDX-License-Identifier: Apache-2.0
//
// The one exception type for what a user, a file, a disk or a peer did. Its kind gives the exit
// code. Our own defects go through ZAYA_CHECK instead.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace zaya {

enum class ErrorKind {
  usage,      // wrong command line or configuration: exit code 2
  damaged,    // damaged data or checkpoint: exit code 3
  peer_lost,  // another process of the run is gone: exit code 4
  numerics,   // loss or gradient not finite and policy says stop: exit code 5
  hardware,   // hardware, memory or storage: exit code 6
};

// The message is one line: what, where (path, line, key, tensor, step) and what to do.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
};

// Process exit code of an error kind.
int exit_code(ErrorKind kind);

}  // namespace zaya
