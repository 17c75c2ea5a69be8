// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/pickle.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "checkpoint/header_scanner.h"

namespace zaya {

namespace {

// Pickles of checkpoints have one entry per tensor and rank: far below this.
constexpr std::size_t kMaxBytes = std::size_t{1} << 28;
constexpr int kNewestProtocol = 5;

using Ref = Pickle::Ref;
using Kind = Pickle::Kind;

}  // namespace

std::string_view describe(Pickle::Kind kind) {
  switch (kind) {
    case Kind::none: return "None";
    case Kind::boolean: return "a boolean";
    case Kind::integer: return "an integer";
    case Kind::real: return "a float";
    case Kind::text: return "a text";
    case Kind::tuple: return "a tuple";
    case Kind::list: return "a list";
    case Kind::dict: return "a dict";
    case Kind::name: return "a class or function";
    case Kind::object: return "an object";
    case Kind::persistent: return "a storage";
  }
  return "";
}

// Runs the operations: a stack of values, a memo of values by number, marks on the stack.
class Pickle::Machine {
 public:
  Machine(Pickle& pickle, std::span<const std::byte> bytes) : pickle_(pickle), bytes_(bytes) {}

  void run() {
    while (!is_done_) step(byte());
    if (at_ != bytes_.size()) fail("goes on behind its end");
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error{ErrorKind::damaged,
                fmt::format("{}: the pickle {} (before byte {})", pickle_.where_, what, at_)};
  }

  // ---- bytes
  std::span<const std::byte> take(std::size_t count) {
    if (count > bytes_.size() - at_) fail("is cut off");
    const std::span<const std::byte> taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  unsigned byte() { return static_cast<unsigned>(take(1)[0]); }
  std::uint64_t little_endian(std::size_t count) {
    std::uint64_t value = 0;
    const std::span<const std::byte> taken = take(count);
    for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<std::uint64_t>(taken[i]);
    return value;
  }
  std::string_view text(std::size_t count) {
    const std::span<const std::byte> taken = take(count);
    const std::string_view text(reinterpret_cast<const char*>(taken.data()), taken.size());
    if (!is_valid_utf8(text)) fail("holds a text that is not UTF-8");
    return text;
  }
  std::string_view line() {
    const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const std::size_t length = std::string_view(begin, bytes_.size() - at_).find('\n');
    if (length == std::string_view::npos) fail("is cut off");
    const std::string_view found = text(length);
    ++at_;
    return found;
  }

  // ---- values
  Ref add(Value value) {
    pickle_.values_.push_back(std::move(value));
    return static_cast<Ref>(pickle_.values_.size() - 1);
  }
  void push(Value value) { stack_.push_back(add(std::move(value))); }
  void push(Kind kind) { push(Value{kind, 0, 0, {}, {}}); }
  void push_integer(std::int64_t value) { push(Value{Kind::integer, value, 0, {}, {}}); }
  void push_text(std::string_view text) { push(Value{Kind::text, 0, 0, text, {}}); }
  Value& value(Ref ref) { return pickle_.values_[ref]; }

  // The lowest place of the stack that an operation may take from.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Ref pop() {
    if (stack_.size() <= floor()) fail("takes from an empty stack");
    const Ref top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Ref top() const {
    if (stack_.size() <= floor()) fail("looks at an empty stack");
    return stack_.back();
  }
  std::vector<Ref> pop_count(std::size_t count) {
    if (stack_.size() - floor() < count) fail("takes from an empty stack");
    std::vector<Ref> taken(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return taken;
  }
  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) fail("has no mark where it takes to one");
    std::vector<Ref> taken = pop_count(stack_.size() - marks_.back());
    marks_.pop_back();
    return taken;
  }
  void push_tuple(std::vector<Ref> items) { push(Value{Kind::tuple, 0, 0, {}, std::move(items)}); }

  // ---- operations
  void push_name(std::string_view module, std::string_view name) {
    const std::string wanted = fmt::format("{} {}", module, name);
    const auto found = std::find(pickle_.allowed_.begin(), pickle_.allowed_.end(), wanted);
    if (found == pickle_.allowed_.end()) {
      fail(
          fmt::format("names {}, which is not among the classes and functions known here; nothing "
                      "of it was executed",
                      shown_name(wanted)));
    }
    push(Value{Kind::name, found - pickle_.allowed_.begin(), 0, *found, {}});
  }
  void push_name_from_stack() {
    const std::vector<Ref> both = pop_count(2);
    for (const Ref each : both) {
      if (value(each).kind != Kind::text) fail("names a class by something other than texts");
    }
    push_name(value(both[0]).text, value(both[1]).text);
  }
  void push_object() {
    const std::vector<Ref> both = pop_count(2);
    if (value(both[0]).kind != Kind::name) fail("calls something other than a class or function");
    if (value(both[1]).kind != Kind::tuple) fail("calls with something other than a tuple");
    push(Value{Kind::object, 0, 0, {}, both});
  }
  void build() {
    const Ref state = pop();
    Value& object = value(top());
    if (object.kind != Kind::object) fail("gives a state to something other than an object");
    if (object.items.size() > 2) fail("gives an object a second state");
    object.items.push_back(state);
  }
  void append(const std::vector<Ref>& items) {
    Value& list = value(top());
    if (list.kind != Kind::list) fail("appends to something other than a list");
    list.items.insert(list.items.end(), items.begin(), items.end());
  }
  void set_items(const std::vector<Ref>& items) {
    if (items.size() % 2 != 0) fail("sets a key without a value");
    Value& dict = value(top());
    if (dict.kind != Kind::dict) fail("sets items of something other than a dict");
    dict.items.insert(dict.items.end(), items.begin(), items.end());
  }
  void remember(std::size_t number) {
    // Writers count upwards: a larger number would only be a request for memory.
    if (number > memo_.size()) fail("leaves out numbers of its memo");
    if (number == memo_.size()) memo_.push_back(0);
    memo_[number] = top();
  }
  void recall(std::size_t number) {
    if (number >= memo_.size()) fail("asks for a value that its memo does not have");
    stack_.push_back(memo_[number]);
  }
  void push_long() {
    const std::size_t count = byte();
    if (count > 8) fail("holds an integer above 64 bits");
    std::uint64_t bits = little_endian(count);
    const int unused = 64 - 8 * static_cast<int>(count);
    if (count == 0) return push_integer(0);
    push_integer(static_cast<std::int64_t>(bits << unused) >> unused);
  }
  void push_real() {
    const std::span<const std::byte> taken = take(8);
    std::uint64_t bits = 0;
    for (const std::byte each : taken) bits = bits << 8 | static_cast<std::uint64_t>(each);
    double real;
    std::memcpy(&real, &bits, sizeof real);
    push(Value{Kind::real, 0, real, {}, {}});
  }
  void stop() {
    pickle_.root_ = pop();
    if (!stack_.empty() || !marks_.empty()) fail("ends with values left over");
    is_done_ = true;
  }
  void start() {
    if (byte() > kNewestProtocol) fail("has a protocol above 5");
  }
  void frame() {
    if (little_endian(8) > bytes_.size() - at_) fail("is cut off inside a frame");
  }

  void step(unsigned operation) {
    switch (operation) {
      case 0x80: return start();                                   // PROTO
      case 0x95: return frame();                                   // FRAME
      case '.': return stop();                                     // STOP
      case '(': return marks_.push_back(stack_.size());            // MARK
      case 'N': return push(Kind::none);                           // NONE
      case 0x88: return push(Value{Kind::boolean, 1, 0, {}, {}});  // NEWTRUE
      case 0x89: return push(Kind::boolean);                       // NEWFALSE
      case 'J':                                                    // BININT
        return push_integer(static_cast<std::int32_t>(little_endian(4)));
      case 'K': return push_integer(byte());                                       // BININT1
      case 'M': return push_integer(static_cast<std::int64_t>(little_endian(2)));  // BININT2
      case 0x8a: return push_long();                                               // LONG1
      case 'G': return push_real();                                                // BINFLOAT
      case 0x8c: return push_text(text(byte()));                          // SHORT_BINUNICODE
      case 'X': return push_text(text(little_endian(4)));                 // BINUNICODE
      case ')': return push(Kind::tuple);                                 // EMPTY_TUPLE
      case ']': return push(Kind::list);                                  // EMPTY_LIST
      case '}': return push(Kind::dict);                                  // EMPTY_DICT
      case 0x85: return push_tuple(pop_count(1));                         // TUPLE1
      case 0x86: return push_tuple(pop_count(2));                         // TUPLE2
      case 0x87: return push_tuple(pop_count(3));                         // TUPLE3
      case 't': return push_tuple(pop_to_mark());                         // TUPLE
      case 'a': return append({pop()});                                   // APPEND
      case 'e': return append(pop_to_mark());                             // APPENDS
      case 's': return set_items(pop_count(2));                           // SETITEM
      case 'u': return set_items(pop_to_mark());                          // SETITEMS
      case 'c': return global();                                          // GLOBAL
      case 0x93: return push_name_from_stack();                           // STACK_GLOBAL
      case 0x81:                                                          // NEWOBJ
      case 'R': return push_object();                                     // REDUCE
      case 'b': return build();                                           // BUILD
      case 'Q': return push(Value{Kind::persistent, 0, 0, {}, {pop()}});  // BINPERSID
      case 0x94: return remember(memo_.size());                           // MEMOIZE
      case 'q': return remember(byte());                                  // BINPUT
      case 'r': return remember(little_endian(4));                        // LONG_BINPUT
      case 'h': return recall(byte());                                    // BINGET
      case 'j': return recall(little_endian(4));                          // LONG_BINGET
      default: fail(fmt::format("has the operation 0x{:02x}, which is not known here", operation));
    }
  }
  void global() {
    const std::string_view module = line();
    push_name(module, line());
  }

  Pickle& pickle_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::vector<Ref> stack_, memo_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  bool is_done_ = false;
};

Pickle::Pickle(std::span<const std::byte> bytes, std::span<const std::string_view> allowed,
               std::string where)
    : where_(std::move(where)), allowed_(allowed) {
  if (bytes.size() > kMaxBytes) {
    throw Error{ErrorKind::damaged, fmt::format("{}: a pickle of {} bytes, above the limit of {}",
                                                where_, bytes.size(), kMaxBytes)};
  }
  Machine(*this, bytes).run();
}

const Pickle::Value& Pickle::expect(Ref ref, Kind wanted, std::string_view what) const {
  const Value& value = values_[ref];
  if (value.kind == wanted) return value;
  throw Error{ErrorKind::damaged, fmt::format("{}: {} is {}, expected {}", where_, what,
                                              describe(value.kind), describe(wanted))};
}

bool Pickle::boolean(Ref value, std::string_view what) const {
  return expect(value, Kind::boolean, what).integer != 0;
}

std::int64_t Pickle::integer(Ref value, std::string_view what) const {
  return expect(value, Kind::integer, what).integer;
}

double Pickle::real(Ref value, std::string_view what) const {
  return expect(value, Kind::real, what).real;
}

std::string_view Pickle::text(Ref value, std::string_view what) const {
  return expect(value, Kind::text, what).text;
}

std::string_view Pickle::name(Ref value, std::string_view what) const {
  return expect(value, Kind::name, what).text;
}

std::span<const Pickle::Ref> Pickle::items(Ref value, Kind wanted, std::string_view what) const {
  return expect(value, wanted, what).items;
}

std::string_view Pickle::class_of(Ref object, std::string_view what) const {
  return values_[expect(object, Kind::object, what).items[0]].text;
}

std::optional<Pickle::Ref> Pickle::state(Ref object) const {
  const Value& value = values_[object];
  if (value.kind != Kind::object || value.items.size() < 3) return std::nullopt;
  return value.items[2];
}

Pickle::Ref Pickle::persistent_id(Ref value, std::string_view what) const {
  return expect(value, Kind::persistent, what).items[0];
}

std::optional<Pickle::Ref> Pickle::find(Ref dict, std::string_view key,
                                        std::string_view what) const {
  const std::span<const Ref> pairs = items(dict, Kind::dict, what);
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    const Value& each = values_[pairs[i]];
    if (each.kind == Kind::text && each.text == key) return pairs[i + 1];
  }
  return std::nullopt;
}

}  // namespace zaya
