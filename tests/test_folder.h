// SPDX-License-Identifier: Apache-2.0
//
// A folder to write into, below /tmp, that vanishes with its test.
#pragma once

#include <unistd.h>

#include <string>

#include "base/file.h"

namespace zaya {

class TestFolder {
 public:
  explicit TestFolder(const std::string& name)
      : path_("/tmp/zaya-" + name + "-test-" + std::to_string(getpid())) {
    remove_all(path_);
    make_directories(path_);
  }
  ~TestFolder() { remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return join_path(path_, name); }

 private:
  std::string path_;
};

}  // namespace zaya
