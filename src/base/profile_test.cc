// SPDX-License-Identifier: Apache-2.0
#include "base/profile.h"

#include <doctest/doctest.h>

#include "base/clock.h"

namespace zaya {
namespace {

void spend(double seconds) {
  const double until = monotonic_seconds() + seconds;
  while (monotonic_seconds() < until) {
  }
}

TEST_CASE("a part is charged without the parts inside it, and all parts add up") {
  Profile profile;
  const double began = monotonic_seconds();
  profile.start();
  {
    const Profile::Scope outer(&profile, "head", "forward");
    spend(0.01);
    const Profile::Scope inner(&profile, "norm", "forward");
    spend(0.02);
  }
  {
    const Profile::Scope again(&profile, "norm", "forward");
    spend(0.01);
  }
  spend(0.005);
  profile.stop();
  const double took = monotonic_seconds() - began;

  REQUIRE(profile.parts().size() == 3);
  double sum = 0;
  for (const Profile::Part& part : profile.parts()) sum += part.seconds;
  CHECK(sum == doctest::Approx(took).epsilon(0.02));
  CHECK(profile.parts()[0].name == "other");
  CHECK(profile.parts()[0].seconds >= 0.005);
  CHECK(profile.parts()[1].name == "head");
  CHECK(profile.parts()[1].seconds >= 0.01);
  CHECK(profile.parts()[2].seconds >= 0.03);
}

TEST_CASE("without a profile a scope does nothing") { const Profile::Scope scope(nullptr, "head"); }

}  // namespace
}  // namespace zaya
