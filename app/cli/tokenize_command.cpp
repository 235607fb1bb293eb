// kvscope tokenize: ids and pieces of a text. Needs the tokenizer's files only.

#include <cstdio>

#include "app/catalog/models.h"
#include "app/catalog/prompt_lines.h"
#include "app/cli/arguments.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/cli/run_options.h"
#include "app/engine_client/progress.h"
#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kTokenizeOptions[] = {
    {"text", "TEXT", "the text"},
    {"text-file", "FILE", "the text from a file; - is stdin"},
    {"add-special", "", "add the tokens of the model's post-processor"},
    {"chat", "", "the text is a user message: print the ids of the chat prompt"},
    kSystemOption,
    kThinkingOption,
    kDateOption,
    {"json", "", "one object: ids, pieces, and the chat's date if it is the template's"},
};

void check_options(const Arguments& arguments) {
  const auto fail = [](std::string file, std::string found, std::string expected) {
    usage_error(file, std::move(found), std::move(expected));
  };
  if (arguments.has("chat") && arguments.has("add-special")) {
    fail("--chat and --add-special", "both given", "one of them, because a chat template adds its own");
  }
  for (const char* name : {"system", "thinking", "date"}) {
    if (arguments.has(name) && !arguments.has("chat")) fail(dashed(name), "no chat", "--chat as well");
  }
}

/// The date that a chat has because nobody gave one; empty if it has none.
std::string default_date(const ChatTemplate& chat, const ChatOptions& options) {
  return chat.has_date() && options.date.empty() ? chat.date() : "";
}

// As it comes: an object of a text's pieces would take a hundred times the text.
void write_json(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, const std::string& date) {
  std::fputs("{\"ids\":[", stdout);
  for (std::size_t i = 0; i < ids.size(); ++i) std::printf(i == 0 ? "%d" : ",%d", ids[i]);
  std::fputs("],\"pieces\":[", stdout);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const nlohmann::json piece = std::string(tokenizer.piece(ids[i]));
    if (i > 0) std::fputc(',', stdout);
    std::fputs(piece.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str(), stdout);
  }
  std::printf("]%s}\n", date.empty() ? "" : (",\"date\":" + nlohmann::json(date).dump()).c_str());
}

int tokenize(const Arguments& arguments) {
  check_options(arguments);
  const std::filesystem::path model = model_folder(arguments.positionals()[0]);
  const std::string text = arguments.text_or_file("text");
  const Tokenizer tokenizer = Tokenizer::load(model);
  for (const std::string& line : tokenizer.warnings()) print_warning(line);
  std::vector<std::int32_t> ids;
  std::string date;
  if (arguments.has("chat")) {
    const ChatTemplate chat = ChatTemplate::load(model);
    const ChatOptions options = chat_options(arguments);
    ids = chat.encode(tokenizer, with_system(system_option(arguments), {{"user", text}}), options);
    date = default_date(chat, options);
  } else {
    ids = arguments.has("add-special") ? tokenizer.encode_with_special(text) : tokenizer.encode(text);
  }
  if (arguments.has("json")) {
    write_json(tokenizer, ids, date);
  } else {
    for (const std::int32_t id : ids) std::printf("%d\t%s\n", id, escape_for_terminal(tokenizer.piece(id)).c_str());
    if (!date.empty()) {
      std::fprintf(stderr, "note: the chat has the template's date, %s; set another with --date\n",
                   escape_for_terminal(date).c_str());
    }
  }
  return 0;
}

}  // namespace

extern const CommandSpec tokenize_command = {
    "tokenize",
    "MODEL --text TEXT | --text-file FILE [--chat] [--json]",
    "print the ids and pieces of a text, as the tokenizers package does",
    "Special tokens in the text become their ids; with --chat they stay text. Needs only the tokenizer's files, no "
    "engine and no weights. A piece may be part of a character; such bytes are printed escaped, in JSON as U+FFFD.",
    "  kvscope tokenize samples/models/kvscope-tiny --text 'The code is 4821.' --json",
    {1, 1},
    kTokenizeOptions,
    tokenize};

}  // namespace kvscope::app
