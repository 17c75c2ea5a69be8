// SPDX-License-Identifier: Apache-2.0
#include "text/post_process.h"

#include <fmt/core.h>

#include <string_view>

#include "text/component.h"

namespace zaya {

namespace {

// The id at the end of ["<s>", 0], as Bert and Roberta state their two tokens.
TokenId read_named_id(const Component& component, std::string_view name) {
  const Json::Array& pair = component.list(name);
  if (pair.size() == 2 && pair[1].is_integer() && pair[1].as_integer() >= 0 &&
      pair[1].as_integer() < Vocabulary::kIdLimit) {
    return static_cast<TokenId>(pair[1].as_integer());
  }
  component.damaged(fmt::format("{}: expected a token and its id", name));
}

// Ids of the special token that a template calls `name`.
std::vector<TokenId> read_special_ids(const Component& component, const std::string& name) {
  const Json& specials = component.at("special_tokens");
  const Json* special = specials.is_object() ? specials.find(name) : nullptr;
  const Json* ids = special != nullptr && special->is_object() ? special->find("ids") : nullptr;
  if (ids == nullptr || !ids->is_array()) {
    component.damaged(fmt::format("special_tokens has no ids for {}", json_quote(name)));
  }
  std::vector<TokenId> result;
  for (const Json& id : ids->items()) {
    if (!id.is_integer() || id.as_integer() < 0 || id.as_integer() >= Vocabulary::kIdLimit) {
      component.damaged(fmt::format("special_tokens: a bad id for {}", json_quote(name)));
    }
    result.push_back(static_cast<TokenId>(id.as_integer()));
  }
  return result;
}

Template read_template(const Component& component) {
  component.allow({"single", "pair", "special_tokens"});
  Template result;
  bool has_text = false;
  for (const Json& item : component.list("single")) {
    if (!item.is_object() || item.members().size() != 1) {
      component.damaged("single: expected SpecialToken and Sequence objects");
    }
    const auto& [kind, value] = item.members()[0];
    const Json* id = value.is_object() ? value.find("id") : nullptr;
    if (id == nullptr || !id->is_string()) component.damaged("single: an item without id");
    if (kind == "Sequence") {
      if (id->as_string() != "A" || has_text) {
        component.refuse("with a single template that is not one sequence A isn't supported");
      }
      has_text = true;
    } else if (kind == "SpecialToken") {
      std::vector<TokenId>& side = has_text ? result.after : result.before;
      for (const TokenId one : read_special_ids(component, id->as_string())) side.push_back(one);
    } else {
      component.refuse(fmt::format("with {} in a template isn't supported", json_quote(kind)));
    }
  }
  if (!has_text) component.refuse("with a template that leaves out the text isn't supported");
  result.is_present = true;
  return result;
}

Template read(const Component& component) {
  const std::string& type = component.type();
  if (type == "TemplateProcessing") return read_template(component);
  if (type == "ByteLevel") {
    // Moves offsets only.
    component.allow({"add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    component.allow({"sep", "cls", "trim_offsets", "add_prefix_space"});
    return {true, {read_named_id(component, "cls")}, {read_named_id(component, "sep")}};
  }
  if (type != "Sequence") component.refuse("isn't a supported post-processor");
  component.allow({"processors"});
  Template result;
  const std::size_t count = component.list("processors").size();
  for (std::size_t i = 0; i < count; ++i) {
    // A later one wraps what the earlier ones made.
    const Template outer = read(component.item("processors", i));
    result.is_present = result.is_present || outer.is_present;
    result.before.insert(result.before.begin(), outer.before.begin(), outer.before.end());
    result.after.insert(result.after.end(), outer.after.begin(), outer.after.end());
  }
  return result;
}

}  // namespace

Template read_post_processor(const Json& json, const std::string& where) {
  return json.is_null() ? Template{} : read(Component(json, where));
}

}  // namespace zaya
