// SPDX-License-Identifier: Apache-2.0
#include "text/normalize.h"

#include <cstring>
#include <utility>

#include "base/overloaded.h"

namespace zaya {

namespace {

void append_matches_replaced(std::string_view text, const Regex& from, std::string_view to,
                             RegexScratch& scratch, std::string& out) {
  MatchIterator matches(from, text, scratch);
  std::size_t copied = 0;
  while (const std::optional<Match> match = matches.next()) {
    out.append(text.substr(copied, match->begin - copied)).append(to);
    copied = match->end;
  }
  out.append(text.substr(copied));
}

}  // namespace

void append_replaced(std::string_view text, std::string_view from, std::string_view to,
                     std::string& out) {
  std::size_t copied = 0;
  while (true) {
    const std::size_t found = text.find(from, copied);
    if (found == text.npos) break;
    out.append(text.substr(copied, found - copied)).append(to);
    copied = found + from.size();
  }
  out.append(text.substr(copied));
}

Normalizer::Normalizer(const Json& json, const std::string& where) {
  if (!json.is_null()) read(Component(json, where));
}

void Normalizer::read(const Component& component) {
  const std::string& type = component.type();
  if (type == "Sequence") {
    component.allow({"normalizers"});
    const std::size_t count = component.list("normalizers").size();
    for (std::size_t i = 0; i < count; ++i) read(component.item("normalizers", i));
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    component.allow({});
    steps_.emplace_back(FormNormalizer(type == "NFC"    ? NormalForm::nfc
                                       : type == "NFD"  ? NormalForm::nfd
                                       : type == "NFKC" ? NormalForm::nfkc
                                                        : NormalForm::nfkd));
  } else if (type == "Replace") {
    component.allow({"pattern", "content"});
    PatternText pattern = read_pattern(component, "pattern");
    const std::string& content = component.text("content");
    if (pattern.is_regex) {
      steps_.emplace_back(ReplacePattern{Regex(pattern.text, component.where()), content});
    } else {
      steps_.emplace_back(ReplaceText{std::move(pattern.text), content});
    }
  } else if (type == "Prepend") {
    component.allow({"prepend"});
    steps_.emplace_back(Prepend{component.text("prepend")});
  } else if (type == "Strip") {
    component.allow({"strip_left", "strip_right"});
    steps_.emplace_back(Strip{component.flag("strip_left"), component.flag("strip_right")});
  } else {
    component.refuse("isn't a supported normalizer");
  }
}

std::string_view Normalizer::apply(std::string_view text, NormalizeScratch& scratch,
                                   RegexScratch& regex) const {
  // Writes the next text; the current one may live in scratch.text.
  const auto rewrite = [&](auto&& write) {
    scratch.next.clear();
    write(scratch.next);
    std::swap(scratch.text, scratch.next);
    text = scratch.text;
  };
  for (const Step& step : steps_) {
    std::visit(Overloaded{
                   [&](const FormNormalizer& form) {
                     if (form.is_surely_normal(text)) return;
                     rewrite([&](std::string& out) { form.append(text, out); });
                   },
                   [&](const ReplaceText& replace) {
                     if (text.find(replace.from) == text.npos) return;
                     rewrite([&](std::string& out) {
                       append_replaced(text, replace.from, replace.to, out);
                     });
                   },
                   [&](const ReplacePattern& replace) {
                     rewrite([&](std::string& out) {
                       append_matches_replaced(text, replace.from, replace.to, regex, out);
                     });
                   },
                   [&](const Prepend& prepend) {
                     if (text.empty()) return;
                     rewrite([&](std::string& out) { out.append(prepend.text).append(text); });
                   },
                   [&](const Strip& strip) {
                     if (strip.is_left) text.remove_prefix(leading_white_space(text));
                     if (strip.is_right) text.remove_suffix(trailing_white_space(text));
                   },
               },
               step);
  }
  return text;
}

}  // namespace zaya
