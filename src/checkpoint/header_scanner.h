// SPDX-License-Identifier: Apache-2.0
//
// A strict JSON scanner for the header of a safetensors file. It keeps what a document tree would
// lose: every occurrence of a name, unsigned 64-bit integers, and how a number was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zaya {

bool is_valid_utf8(std::string_view text);

// `name` in quotes for a message: control characters escaped, cut when longer than 100 bytes.
std::string shown_name(std::string_view name);

// Reads one JSON text from left to right. Every failure is Error{damaged} that begins with `where`
// and names the byte. The text must be valid UTF-8 and outlive the scanner.
class HeaderScanner {
 public:
  HeaderScanner(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  // Calls member(name) for each member of the object that starts here; the callee reads the value.
  template <class Member>
  void object(Member&& member) {
    enter('{');
    if (!accept('}')) {
      do {
        std::string name = string();
        require(':');
        member(std::move(name));
      } while (accept(','));
      require('}');
    }
    --depth_;
  }
  // Calls item() for each item of the list that starts here; the callee reads the item.
  template <class Item>
  void array(Item&& item) {
    enter('[');
    if (!accept(']')) {
      do {
        item();
      } while (accept(','));
      require(']');
    }
    --depth_;
  }

  std::string string();
  // Digits only: 1.0, -1, "1", 1e0 and 01 are refused, as is anything above 2^64-1.
  std::uint64_t unsigned_integer();
  // True, and moved past it, when a null starts here.
  bool accept_null();
  void skip_value();
  // Only white space may follow.
  void end();

  [[noreturn]] void fail(std::string_view what) const;

 private:
  static constexpr int kMaxDepth = 128;

  void skip_space();
  bool accept(char c);
  void require(char c);
  void enter(char open);
  void literal(std::string_view word);
  void number();
  unsigned hex4();
  void escape(std::string& out);

  std::string_view text_;
  std::string where_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace zaya
