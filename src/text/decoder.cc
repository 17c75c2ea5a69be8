// SPDX-License-Identifier: Apache-2.0
#include "text/decoder.h"

#include <string_view>
#include <utility>

#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/unicode.h"

namespace zaya {

namespace {

using Contents = std::vector<std::string>;

std::string joined(const Contents& contents, std::string_view between = {}) {
  std::string text;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (i > 0) text += between;
    text += contents[i];
  }
  return text;
}

// Appends the bytes that `content` stands for. A content with a character outside of the alphabet
// is meant literally: an added token.
void append_letter_bytes(std::string_view content, std::string& out) {
  const std::size_t size = out.size();
  for (std::size_t at = 0; at < content.size();) {
    const auto byte = letter_byte(next_code_point(content, at));
    if (!byte) {
      out.resize(size);
      out += content;
      return;
    }
    out += static_cast<char>(*byte);
  }
}

std::optional<unsigned char> fallback_byte(std::string_view content) {
  if (content.size() != 6 || !content.starts_with("<0x") || content[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : content.substr(3, 2)) {
    const std::size_t digit = std::string_view("0123456789ABCDEFabcdef").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit < 16 ? digit : digit - 6);
  }
  return static_cast<unsigned char>(value);
}

// A run of byte tokens becomes its text when all of it is UTF-8, else one U+FFFD for every byte.
Contents byte_fallback(const Contents& contents) {
  Contents out;
  std::string run;
  const auto finish_run = [&] {
    if (run.empty()) return;
    if (is_valid_utf8(run)) {
      out.push_back(run);
    } else {
      out.insert(out.end(), run.size(), "\xEF\xBF\xBD");
    }
    run.clear();
  };
  for (const std::string& content : contents) {
    if (const auto byte = fallback_byte(content)) {
      run += static_cast<char>(*byte);
    } else {
      finish_run();
      out.push_back(content);
    }
  }
  finish_run();
  return out;
}

std::string_view stripped(std::string_view text, std::string_view content, Index num_left,
                          Index num_right) {
  for (Index i = 0; i < num_left && text.starts_with(content); ++i) {
    text.remove_prefix(content.size());
  }
  for (Index i = 0; i < num_right && text.ends_with(content); ++i) {
    text.remove_suffix(content.size());
  }
  return text;
}

const std::string& one_character(const Component& component, std::string_view name) {
  const std::string& text = component.text(name);
  std::size_t length = 0;
  if (!text.empty()) next_code_point(text, length);
  if (length == 0 || length != text.size()) {
    component.damaged(std::string(name) + ": expected one character");
  }
  return text;
}

Index count_member(const Component& component, std::string_view name) {
  const Json& value = component.at(name);
  if (value.is_integer() && value.as_integer() >= 0) return value.as_integer();
  component.damaged(std::string(name) + ": expected a count");
}

}  // namespace

Decoder::Decoder(const Json& json, const std::string& where) {
  if (json.is_null()) return;
  is_present_ = true;
  read(Component(json, where));
}

void Decoder::read(const Component& component) {
  const std::string& type = component.type();
  if (type == "Sequence") {
    component.allow({"decoders"});
    const std::size_t count = component.list("decoders").size();
    for (std::size_t i = 0; i < count; ++i) read(component.item("decoders", i));
  } else if (type == "ByteLevel") {
    component.allow({"add_prefix_space", "trim_offsets", "use_regex"});
    steps_.emplace_back(ByteLevel{});
  } else if (type == "ByteFallback") {
    component.allow({});
    steps_.emplace_back(ByteFallback{});
  } else if (type == "Fuse") {
    component.allow({});
    steps_.emplace_back(Fuse{});
  } else if (type == "Replace") {
    component.allow({"pattern", "content"});
    PatternText pattern = read_pattern(component, "pattern");
    if (pattern.is_regex) component.refuse("with a Regex isn't a supported decoder");
    steps_.emplace_back(Replace{std::move(pattern.text), component.text("content")});
  } else if (type == "Strip") {
    component.allow({"content", "start", "stop"});
    steps_.emplace_back(Strip{one_character(component, "content"), count_member(component, "start"),
                              count_member(component, "stop")});
  } else if (type == "Metaspace") {
    component.allow({"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
    const bool is_prepended = component.text("prepend_scheme", "always") != "never" &&
                              component.flag("add_prefix_space", true);
    steps_.emplace_back(Metaspace{one_character(component, "replacement"), is_prepended});
  } else {
    component.refuse("isn't a supported decoder");
  }
}

std::string Decoder::decode(std::vector<std::string> contents) const {
  if (!is_present_) return joined(contents, " ");
  const auto map_each = [&](auto&& map) {
    for (std::size_t i = 0; i < contents.size(); ++i) {
      std::string mapped;
      map(contents[i], i == 0, mapped);
      contents[i] = std::move(mapped);
    }
  };
  for (const Step& step : steps_) {
    if (std::holds_alternative<ByteLevel>(step)) {
      std::string bytes, text;
      for (const std::string& content : contents) append_letter_bytes(content, bytes);
      append_valid_utf8(bytes, text);
      contents.assign(1, std::move(text));
    } else if (std::holds_alternative<ByteFallback>(step)) {
      contents = byte_fallback(contents);
    } else if (std::holds_alternative<Fuse>(step)) {
      contents.assign(1, joined(contents));
    } else if (const Replace* replace = std::get_if<Replace>(&step)) {
      map_each([&](const std::string& content, bool, std::string& out) {
        append_replaced(content, replace->from, replace->to, out);
      });
    } else if (const Strip* strip = std::get_if<Strip>(&step)) {
      map_each([&](const std::string& content, bool, std::string& out) {
        out = stripped(content, strip->content, strip->num_left, strip->num_right);
      });
    } else if (const Metaspace* metaspace = std::get_if<Metaspace>(&step)) {
      map_each([&](const std::string& content, bool is_first, std::string& out) {
        const bool is_dropped = is_first && metaspace->drops_first;
        append_replaced(content, metaspace->replacement, is_dropped ? "" : " ", out);
      });
    }
  }
  return joined(contents);
}

}  // namespace zaya
