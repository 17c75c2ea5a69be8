// SPDX-License-Identifier: Apache-2.0
//
// A reader for the part of Python's pickle that PyTorch checkpoints are made of. Nothing is ever
// executed: the result is a table of values, in which an object is the name of its class with the
// arguments and the state that were stored for it. The operations are a closed list, and so are the
// classes and functions, which the caller names; anything else is Error{damaged} with its name.
//
// There is at most one value per byte, no recursion, and no size from the file is trusted before it
// is checked. Values may be shared and lists may even hold themselves: whoever walks them keeps an
// eye on the depth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zaya {

class Pickle {
 public:
  // Number of a value.
  using Ref = std::uint32_t;
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    tuple,
    list,
    dict,
    name,        // a class or function: "torch.serialization _get_layout"
    object,      // made by calling a name
    persistent,  // something outside of the pickle, known by its id
  };

  // Reads all of `bytes`, which the caller keeps alive. `allowed` are the "module name" texts that
  // may occur; `where` begins messages.
  Pickle(std::span<const std::byte> bytes, std::span<const std::string_view> allowed,
         std::string where);

  Ref root() const { return root_; }
  std::size_t num_values() const { return values_.size(); }
  Kind kind(Ref value) const { return values_[value].kind; }

  // The value as stated; Error{damaged} naming both kinds when it is none. `what` is the thing in
  // the format: "the size of tensor w".
  bool boolean(Ref value, std::string_view what) const;
  std::int64_t integer(Ref value, std::string_view what) const;
  double real(Ref value, std::string_view what) const;
  std::string_view text(Ref value, std::string_view what) const;
  std::string_view name(Ref value, std::string_view what) const;
  // Of a tuple or list; of a dict keys and values in turn. Valid as long as this object.
  std::span<const Ref> items(Ref value, Kind kind, std::string_view what) const;
  // The class of an object, the tuple it was called with, and the state it was given, if any.
  std::string_view class_of(Ref object, std::string_view what) const;
  Ref arguments(Ref object) const { return values_[object].items[1]; }
  std::optional<Ref> state(Ref object) const;
  // What stands outside is known by.
  Ref persistent_id(Ref value, std::string_view what) const;
  // The value of a text key of a dict, or none.
  std::optional<Ref> find(Ref dict, std::string_view key, std::string_view what) const;

 private:
  class Machine;

  struct Value {
    Kind kind = Kind::none;
    std::int64_t integer = 0;  // also a boolean; number in allowed_ of a name
    double real = 0;
    std::string_view text = {};
    std::vector<Ref> items;  // of an object: class, arguments, state
  };

  const Value& expect(Ref value, Kind kind, std::string_view what) const;

  std::string where_;
  std::span<const std::string_view> allowed_;
  std::vector<Value> values_;
  Ref root_ = 0;
};

// "a tuple", for messages.
std::string_view describe(Pickle::Kind kind);

}  // namespace zaya
