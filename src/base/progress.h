// SPDX-License-Identifier: Apache-2.0
//
// Progress of a long command: a live line on a terminal, a plain line now and then elsewhere.
// Nothing is printed for work that ends within two seconds.
#pragma once

#include <string>

namespace zaya {

class Progress {
 public:
  enum class Unit { bytes, items };

  // `total` is the amount of work, 0 when unknown. `what` names it: "reading corpus".
  Progress(std::string what, Unit unit, double total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Sets the amount done so far; cheap enough to call often. One thread at a time.
  void update(double done);

 private:
  std::string text(double done, double now) const;

  std::string what_;
  Unit unit_;
  double total_, start_, next_;
};

}  // namespace zaya
