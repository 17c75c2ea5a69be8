// SPDX-License-Identifier: Apache-2.0
#include "base/profile.h"

#include "base/clock.h"

namespace zaya {

std::size_t Profile::find(std::string_view name, std::string_view detail) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].name == name && parts_[i].detail == detail) return i;
  }
  parts_.push_back({name, detail});
  return parts_.size() - 1;
}

void Profile::change_to(std::size_t part) {
  const double now = monotonic_seconds();
  parts_[current_].seconds += now - since_;
  current_ = part;
  since_ = now;
}

void Profile::start() {
  current_ = find("other", {});
  since_ = monotonic_seconds();
}

void Profile::stop() { change_to(find("other", {})); }

Profile::Scope::Scope(Profile* profile, std::string_view name, std::string_view detail)
    : profile_(profile) {
  if (profile_ == nullptr) return;
  outer_ = profile_->current_;
  profile_->change_to(profile_->find(name, detail));
}

Profile::Scope::~Scope() {
  if (profile_ != nullptr) profile_->change_to(outer_);
}

}  // namespace zaya
