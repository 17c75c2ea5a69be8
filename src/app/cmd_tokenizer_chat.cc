// SPDX-License-Identifier: Apache-2.0
//
// `zaya tokenizer chat`: conversations as the text and the ids that a model of some family reads.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "app/cmd_tokenizer.h"
#include "base/cli.h"
#include "base/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace zaya {

namespace {

std::vector<ChatMessage> messages_of(const Json& object) {
  std::vector<ChatMessage> messages;
  for (const Json& message : object.at("messages").items()) {
    messages.push_back({message.at("role").as_string(), message.at("content").as_string()});
  }
  return messages;
}

}  // namespace

int command_tokenizer_chat(Arguments arguments) {
  std::string path, name = "auto";
  bool is_complete = false;
  Command command("tokenizer chat",
                  "Reads {\"messages\": [{\"role\", \"content\"}]} lines from standard input, "
                  "writes {\"text\", "
                  "\"ids\"} lines.",
                  "zaya tokenizer chat --tokenizer tokenizer.json < chats.jsonl");
  std::vector<std::string> names = ChatTemplate::names();
  names.insert(names.begin(), "auto");
  command.option("--tokenizer", path, "tokenizer.json, or the folder that holds it.", true);
  command.choice("--chat-template", name, names,
                 "Whose rules to follow; auto: those of the tokenizer's own template.");
  command.flag("--complete", is_complete,
               "The conversation is complete: do not ask for the assistant's next answer.");
  if (!command.parse(arguments)) return 0;
  const Tokenizer tokenizer = Tokenizer::load(path);
  const ChatTemplate& chat = ChatTemplate::choose(name, tokenizer);
  convert_lines([&](const Json& object) {
    const std::vector<ChatMessage> messages = messages_of(object);
    return fmt::format("{{\"text\":{},\"ids\":{}}}",
                       json_quote(chat.render(messages, !is_complete)),
                       ids_as_text(chat.encode(tokenizer, messages, !is_complete)));
  });
  return 0;
}

}  // namespace zaya
