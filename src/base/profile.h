// SPDX-License-Identifier: Apache-2.0
//
// Where the time of one thread goes: named parts, nested, each charged with its own time only, so
// that the parts add up to the time between start() and stop().
#pragma once

#include <string_view>
#include <vector>

namespace zaya {

class Profile {
 public:
  struct Part {
    std::string_view name, detail;  // "experts", "backward"
    double seconds = 0;             // without the parts inside it
  };

  // Charges what is in no part to "other".
  void start();
  void stop();

  // In order of first entry.
  const std::vector<Part>& parts() const { return parts_; }

  // Charges its lifetime to a part; null: does nothing. Both strings must outlive the profile.
  class Scope {
   public:
    Scope(Profile* profile, std::string_view name, std::string_view detail = {});
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Profile* profile_;
    std::size_t outer_ = 0;
  };

 private:
  std::size_t find(std::string_view name, std::string_view detail);
  // Charges the time since the last change to the current part, and makes `part` current.
  void change_to(std::size_t part);

  std::vector<Part> parts_;
  std::size_t current_ = 0;
  double since_ = 0;
};

}  // namespace zaya
