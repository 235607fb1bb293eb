// kvscope tokenize: ids and pieces of a text. Needs the tokenizer's files only.

#include <cstdio>

#include "app/cli/command_list.h"
#include "app/cli/engine_job.h"
#include "app/cli/output.h"
#include "engine/core/support/error.h"
#include "engine/core/tokenizer/tokenizer.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kOptions[] = {
    {"text", "TEXT", "the text"},
    {"text-file", "FILE", "the text from a file; - is stdin"},
    {"add-special", "", "add what the model's post-processor adds"},
    {"json", "", "one object: ids and pieces"},
    kHelpOption,
};

int tokenize(const Arguments& arguments) {
  const std::string text = arguments.text_or_file("text");
  const Tokenizer tokenizer = Tokenizer::load(arguments.positionals()[0]);
  const std::vector<std::int32_t> ids =
      arguments.has("add-special") ? tokenizer.encode_with_special(text) : tokenizer.encode(text);
  if (arguments.has("json")) {
    nlohmann::ordered_json pieces = nlohmann::ordered_json::array();
    for (const std::int32_t id : ids) pieces.push_back(std::string(tokenizer.piece(id)));
    write_json_line(nlohmann::ordered_json{{"ids", ids}, {"pieces", pieces}});
  } else {
    for (const std::int32_t id : ids) std::printf("%d\t%s\n", id, escape_for_terminal(tokenizer.piece(id)).c_str());
  }
  flush_stdout();
  return 0;
}

}  // namespace

const CommandSpec& tokenize_command() {
  static const CommandSpec spec = {"tokenize",
                                   "MODEL --text TEXT | --text-file FILE [--json]",
                                   "ids and pieces of a text, as the tokenizers package gives them",
                                   "Special tokens in the text become their ids. Needs tokenizer.json only: no engine, "
                                   "no weights. A piece may be a part\n"
                                   "of a character; such bytes are shown escaped, in JSON as U+FFFD.",
                                   "  kvscope tokenize samples/models/kvscope-tiny --text 'The code is 4821.' --json",
                                   1,
                                   1,
                                   kOptions,
                                   tokenize};
  return spec;
}

}  // namespace kvscope::app
