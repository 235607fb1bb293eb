#pragma once
// What an evaluation can ask. One task is one file with its words and its scorer; task_list() has them all.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/support/random.h"

namespace kvscope::engine {

/// A task in words, without the text around it.
struct TaskText {
  std::vector<std::string> statements;     // what must be remembered; each is a paragraph
  std::string question;                    // as a person asks it in a chat
  std::string lead;                        // how the answer begins; the model goes on from here, with a blank
  std::string answer;                      // all that is right, without the blank
  std::vector<std::string> haystack = {};  // paragraphs around the statements, from the first again; empty: the filler
  std::vector<std::string> choices = {};   // if any: the likeliest of these is the answer, none is decoded
  bool ends_whole = false;                 // the haystack is cut where it begins, not where it ends
  double room = 1;                         // tokens that a model may write, for each of the answer's
};

/// A possible answer: its tokens follow the prompt.
struct TaskChoice {
  std::string text;
  std::vector<std::int32_t> ids;
};

/// One question, ready to be asked: the model reads `prompt` and goes on greedily for at most max_tokens. With choices, each
/// of them follows the prompt; the model's answer is that with the greatest mean log-probability of its tokens.
struct TaskQuestion {
  std::vector<std::int32_t> prompt;
  std::string expected;
  int max_tokens = 0;
  std::vector<TaskChoice> choices = {};
};

/// What questions are made of: a tokenizer, and English text that stands around the statements.
struct TaskMaterial {
  const Tokenizer& tokenizer;
  std::vector<std::int32_t> filler;          // tokens of the whole text
  std::vector<std::size_t> line_starts;      // of filler, ascending; 0 is one
  std::vector<std::int32_t> before, behind;  // of every prompt: the text's first token, the markup of a chat
  bool chat = false;
  std::uint64_t seed = 1;

  /// chat: the template of the model, nullptr for a plain text. The text of `filler_text` is cut at its lines; it may be
  /// empty if no task reads it.
  static TaskMaterial make(const Tokenizer& tokenizer, std::string_view filler_text, const ChatTemplate* chat,
                           std::uint64_t seed);
};

struct Task {
  std::string_view name;
  std::string_view definition;  // one line
  bool for_tiny = false;        // in the words of the training recipe: what the sample model was trained for
  /// The words of one question; `length` is that of the whole prompt with its answer, in tokens.
  TaskText (*write)(Random& random, int length) = nullptr;
  /// Whether a model's text is the answer. Exact: no partial marks.
  bool (*mark)(std::string_view expected, std::string_view answer) = nullptr;
  /// Instead of `mark`: how much of the answer a model's text has, from 0 to 1.
  double (*share)(std::string_view expected, std::string_view answer) = nullptr;
  /// Of a task that makes its own prompt, instead of `write`.
  TaskQuestion (*make)(const TaskMaterial& material, std::uint64_t index, int length) = nullptr;
  bool reads_filler = true;  // puts text around what it asks

  /// The share, or 1 for right and 0 for wrong.
  double mark_of(std::string_view expected, std::string_view answer) const;
};

/// All tasks, in the order in which they are offered.
std::span<const Task> task_list();
/// Throws Error (usage) listing the tasks if there is none of that name.
const Task& find_task(std::string_view name);

/// Question `index` of a task: from (material.seed, the task's name, index) alone, so that every machine, policy and order
/// asks the same. Prompt and answer have `length` tokens together, exactly. Throws Error (usage) if the task does not fit.
TaskQuestion make_question(const Task& task, const TaskMaterial& material, std::uint64_t index, int length);

/// One file of the project's own, or `given`: where the text around the tasks is. Throws Error naming the option.
std::string filler_text(const std::string& given, const std::string& model);

// What the tasks' files share.

/// The answer begins with the expected text, blanks before it apart, and no letter or digit follows.
bool mark_beginning(std::string_view expected, std::string_view answer);
/// The answer begins with the words of the expected text, "a, b, c", in any order. It may separate them otherwise.
bool mark_list(std::string_view expected, std::string_view answer);
/// The words of letters and digits that a text has, in its order.
std::vector<std::string> alphanumeric_words(std::string_view text);
/// "amber falcon": 400 of them.
std::string draw_thing(Random& random);
/// So many things, all different.
std::vector<std::string> draw_things(Random& random, int n);
/// Five digits, the first not 0.
std::string draw_code(Random& random);

}  // namespace kvscope::engine
