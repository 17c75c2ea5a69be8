// SPDX-License-Identifier: Apache-2.0
//
// In what two contents differ, and by how much.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/content.h"
#include "checkpoint/header_scanner.h"
#include "checkpoint/publish.h"

namespace zaya {

namespace {

// Walks over the bytes of a tensor that lie in pieces.
class PieceCursor {
 public:
  explicit PieceCursor(const ContentTensor& tensor) : pieces_(tensor.pieces) { skip_empty(); }

  bool is_at_end() const { return piece_ == pieces_.size(); }
  std::size_t contiguous() const { return pieces_[piece_].size() - at_; }
  const std::byte* data() const { return pieces_[piece_].data() + at_; }
  void advance(std::size_t num_bytes) {
    at_ += num_bytes;
    skip_empty();
  }

 private:
  void skip_empty() {
    while (piece_ < pieces_.size() && at_ == pieces_[piece_].size()) {
      ++piece_;
      at_ = 0;
    }
  }

  const std::vector<std::span<const std::byte>>& pieces_;
  std::size_t piece_ = 0, at_ = 0;
};

// What comparing the values of one tensor has found so far.
struct ValueComparison {
  StorageType type;
  std::size_t element_bytes;  // 1 for types without values: then bytes are compared
  Index num_different = 0, first = -1;
  double max_difference = 0, first_a = 0, first_b = 0;

  explicit ValueComparison(StorageType t)
      : type(t), element_bytes(has_values(t) ? bits_of(t) / 8 : 1) {}

  void add(const std::byte* a, const std::byte* b, std::size_t count, Index first_index) {
    for (std::size_t i = 0; i < count; ++i) {
      if (std::memcmp(a + i * element_bytes, b + i * element_bytes, element_bytes) == 0) continue;
      const double x = value_at(type, a, i), y = value_at(type, b, i);
      if (num_different++ == 0) {
        first = first_index + static_cast<Index>(i);
        first_a = x;
        first_b = y;
      }
      // Equal infinities with other bits do not exist; a NaN on one side stays.
      const double difference = x == y ? 0 : std::abs(x - y);
      if (std::isnan(difference) || difference > max_difference) max_difference = difference;
    }
  }
};

ValueComparison compare_values(const ContentTensor& a, const ContentTensor& b) {
  constexpr std::size_t kBlock = std::size_t{1} << 16;
  ValueComparison out(a.spec.type);
  PieceCursor left(a), right(b);
  Index index = 0;
  while (!left.is_at_end() && !right.is_at_end()) {
    const std::size_t length = std::min({kBlock, left.contiguous(), right.contiguous()});
    const std::size_t count = length / out.element_bytes;
    if (std::memcmp(left.data(), right.data(), length) != 0) {
      out.add(left.data(), right.data(), count, index);
    }
    index += static_cast<Index>(count);
    left.advance(length);
    right.advance(length);
  }
  return out;
}

// "[1, 5]" for element `index` of a tensor.
std::string position_text(const TensorSpec& spec, Index index) {
  std::string text;
  std::uint64_t rest = static_cast<std::uint64_t>(index);
  for (std::size_t i = spec.shape.size(); i-- > 0;) {
    text = fmt::format("{}{}{}", rest % spec.shape[i], text.empty() ? "" : ", ", text);
    rest /= spec.shape[i];
  }
  return "[" + text + "]";
}

void compare_tensors(const ContentTensor& a, const ContentTensor& b, std::vector<Difference>& out) {
  const std::string where = "tensor " + shown_name(a.spec.name);
  if (a.spec != b.spec) {
    out.push_back({where, fmt::format("{} against {}", describe(a.spec), describe(b.spec))});
    return;
  }
  const ValueComparison values = compare_values(a, b);
  if (values.num_different == 0) return;
  const Index total = static_cast<Index>(element_count(a.spec));
  std::string text;
  if (has_values(values.type)) {
    text = fmt::format("{} of {} values differ, the first at {} ({} against {}), by at most {}",
                       values.num_different, total, position_text(a.spec, values.first),
                       values.first_a, values.first_b, values.max_difference);
  } else {
    text = fmt::format("{} bytes differ, the first at {}", values.num_different, values.first);
  }
  out.push_back(
      {where, std::move(text), values.num_different, values.first,
       has_values(values.type) ? values.max_difference : std::numeric_limits<double>::quiet_NaN()});
}

// A value cut to a length that fits a line.
std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump();
  return text.size() <= kLongest
             ? text
             : fmt::format("{} of {} bytes", describe(value.kind()), text.size());
}

void compare_json(const Json& a, const Json& b, const std::string& path,
                  std::vector<Difference>& out) {
  if (a == b) return;
  if (a.is_object() && b.is_object()) {
    for (const auto& [key, value] : a.members()) {
      const std::string inner = path + "." + key;
      if (const Json* other = b.find(key)) {
        compare_json(value, *other, inner, out);
      } else {
        out.push_back({inner, fmt::format("{} against nothing", shown(value))});
      }
    }
    for (const auto& [key, value] : b.members()) {
      if (a.find(key) == nullptr) {
        out.push_back({path + "." + key, fmt::format("nothing against {}", shown(value))});
      }
    }
    return;
  }
  if (a.is_array() && b.is_array() && a.items().size() == b.items().size()) {
    for (std::size_t i = 0; i < a.items().size(); ++i) {
      compare_json(a.items()[i], b.items()[i], fmt::format("{}[{}]", path, i), out);
    }
    return;
  }
  Difference difference{path, fmt::format("{} against {}", shown(a), shown(b))};
  if (a.is_number() && b.is_number()) {
    difference.max_difference = std::abs(a.as_real() - b.as_real());
  }
  out.push_back(std::move(difference));
}

void compare_states(const CheckpointReader& a, const CheckpointReader& b,
                    std::vector<Difference>& out) {
  compare_json(Json(a.step()), Json(b.step()), "step", out);
  compare_json(lasting_state(a.run_state()), lasting_state(b.run_state()), "run_state", out);
}

}  // namespace

std::vector<Difference> compare_contents(const Content& a, const Content& b) {
  std::vector<Difference> out;
  auto x = a.tensors().begin();
  auto y = b.tensors().begin();
  const auto missing = [&](const ContentTensor& tensor, const Content& from) {
    out.push_back(
        {"tensor " + shown_name(tensor.spec.name), fmt::format("is not in {}", from.path())});
  };
  while (x != a.tensors().end() || y != b.tensors().end()) {
    if (y == b.tensors().end() || (x != a.tensors().end() && x->spec.name < y->spec.name)) {
      missing(*x++, b);
    } else if (x == a.tensors().end() || y->spec.name < x->spec.name) {
      missing(*y++, a);
    } else {
      compare_tensors(*x++, *y++, out);
    }
  }
  if (a.reader() != nullptr && b.reader() != nullptr) {
    compare_states(*a.reader(), *b.reader(), out);
  }
  return out;
}

}  // namespace zaya
