// SPDX-License-Identifier: Apache-2.0
//
// A visitor for std::visit made of lambdas.
#pragma once

namespace zaya {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace zaya
