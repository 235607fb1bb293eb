#include "engine/jobs/tasks/lexicon.h"

namespace kvscope::engine {

TaskLexicon TaskLexicon::make(const std::function<TokenIds(std::string_view)>& encode) {
  TaskLexicon words;
  words.numbers_open = encode("\nNumbers:");
  for (int i = 0; i < 100; ++i) {
    words.two_digits[i] = encode({" " + std::to_string(i / 10) + std::to_string(i % 10)});
  }
  words.reversed_open = encode("\nReversed:");
  words.code_open = encode("\nThe code of the");
  words.code_is = encode(" is");
  words.question_open = encode("\nWhat is the code of the");
  words.question_close = encode("?");
  words.stop = encode(".\n");
  words.blank = encode(" ");
  for (int i = 0; i < 10; ++i) words.digit[i] = encode(std::to_string(i));
  for (std::size_t i = 0; i < kAdjectives.size(); ++i) words.adjective[i] = encode(" " + std::string(kAdjectives[i]));
  for (std::size_t i = 0; i < kNouns.size(); ++i) words.noun[i] = encode(" " + std::string(kNouns[i]));
  return words;
}

void append(TokenIds& ids, const TokenIds& tail) { ids.insert(ids.end(), tail.begin(), tail.end()); }

}  // namespace kvscope::engine
