#include "engine/jobs/tasks/task.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <utility>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/tasks/task_item.h"

namespace kvscope::engine {

Task needle_task(), needle_keys_task(), needle_values_task(), birthplace_task(), passkey_task(), key_values_task(),
    variables_task(), common_words_task(), trained_forms_task(), arithmetic_task(), reversal_task(), fact_recall_task(),
    palindrome_task(), needle_noise_task(), needle_id_task(), needle_lines_task(), needle_ids_task(),
    needle_queries_task(), variable_chain_task(), common_ten_task(), frequent_words_task(), qa_paragraph_task(),
    qa_hops_task(), choices_task(), rerank_task(), many_shot_task(), summary_task();

std::vector<Task> reasoning_tasks();

namespace {

constexpr std::size_t kMaxTextBytes = 64u << 20;
constexpr double kStatedWithin = 0.6;  // of the text: where statements stand
constexpr int kSlack = 2;              // tokens behind an answer, to see that it ends

/// Of a task's name: which stream of random numbers it draws from.
std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

TokenIds encode(const TaskMaterial& material, const std::string& text) {
  return material.tokenizer.encode_typed(text, false);
}

/// `n` tokens of the filler from `first` on; it begins again where it ends.
void append_filler(const TaskMaterial& material, std::size_t first, std::size_t n, TokenIds& ids) {
  for (std::size_t i = 0; i < n; ++i) ids.push_back(material.filler[(first + i) % material.filler.size()]);
}

/// Where the statements go in `n` tokens of filler from `first` on: at beginnings of lines in the first 60 %, ascending.
std::vector<std::size_t> draw_places(const TaskMaterial& material, Random& random, std::size_t first, std::size_t n,
                                     std::size_t count) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t drawn = random.below(static_cast<std::uint64_t>(static_cast<double>(n) * kStatedWithin) + 1);
    const std::size_t at = (first + drawn) % material.filler.size();
    const std::size_t line = *(std::upper_bound(material.line_starts.begin(), material.line_starts.end(), at) - 1);
    places.push_back(drawn - std::min(drawn, at - line));
  }
  std::sort(places.begin(), places.end());
  return places;
}

TaskQuestion lay_out(const Task& task, const TaskText& text, const TaskMaterial& material, Random& random, int length) {
  std::vector<TokenIds> statements;
  TokenIds end;
  if (material.chat) end = encode(material, "\n\n" + text.question);
  append(end, material.behind);
  append(end, encode(material, (material.chat ? "" : "\n") + text.lead));
  std::size_t n_task = material.before.size() + end.size();
  for (const std::string& statement : text.statements) {
    statements.push_back(encode(material, "\n" + statement + "\n"));
    n_task += statements.back().size();
  }
  TaskQuestion question{.prompt = material.before, .expected = text.answer};
  for (const std::string& choice : text.choices) {
    question.choices.push_back({choice, encode(material, " " + choice)});
    question.max_tokens = std::max(question.max_tokens, static_cast<int>(question.choices.back().ids.size()));
  }
  if (text.choices.empty()) {
    const auto n = static_cast<double>(encode(material, " " + text.answer).size());
    question.max_tokens = static_cast<int>(n * text.room) + kSlack;
  }
  n_task += static_cast<std::size_t>(question.max_tokens);
  if (n_task > static_cast<std::size_t>(length)) {
    throw Error({.code = ExitCode::usage,
                 .file = "task " + std::string(task.name),
                 .found = "it needs " + std::to_string(n_task) + " tokens without any text around it",
                 .expected = "at most " + std::to_string(length) + " tokens, the length of a question",
                 .hint = "use a greater --length, within the model's context"});
  }
  const std::size_t n_filler = static_cast<std::size_t>(length) - n_task;
  std::size_t first = material.line_starts[random.below(material.line_starts.size())];
  if (text.ends_whole) first += material.filler.size() - n_filler % material.filler.size();  // where it ends
  const auto places = draw_places(material, random, first, n_filler, statements.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    append_filler(material, first + at, places[i] - at, question.prompt);
    append(question.prompt, statements[i]);
    at = places[i];
  }
  append_filler(material, first + at, n_filler - at, question.prompt);
  append(question.prompt, end);
  return question;
}

/// The same, with a haystack in the place of the filler. Its paragraphs are encoded as statements are.
TaskMaterial with_haystack(const TaskMaterial& material, const std::vector<std::string>& haystack) {
  TaskMaterial own{.tokenizer = material.tokenizer,
                   .before = material.before,
                   .behind = material.behind,
                   .chat = material.chat,
                   .seed = material.seed};
  for (const std::string& paragraph : haystack) {
    own.line_starts.push_back(own.filler.size());
    append(own.filler, encode(own, "\n" + paragraph + "\n"));
  }
  return own;
}

/// "and" is none. At most n of them, sorted.
std::vector<std::string> first_words(std::string_view text, std::size_t n) {
  std::vector<std::string> words = alphanumeric_words(text);
  std::erase(words, "and");
  words.resize(std::min(words.size(), n));
  std::ranges::sort(words);
  return words;
}

}  // namespace

std::span<const Task> task_list() {
  static const std::vector<Task> list = [] {
    std::vector<Task> tasks{needle_task(),         birthplace_task(),     passkey_task(),        needle_keys_task(),
                            needle_values_task(),  key_values_task(),     variables_task(),      common_words_task(),
                            trained_forms_task(),  arithmetic_task(),     reversal_task(),       fact_recall_task(),
                            palindrome_task(),     needle_noise_task(),   needle_id_task(),      needle_lines_task(),
                            needle_ids_task(),     needle_queries_task(), variable_chain_task(), common_ten_task(),
                            frequent_words_task(), qa_paragraph_task(),   qa_hops_task(),        choices_task(),
                            rerank_task(),         many_shot_task(),      summary_task()};
    for (Task& task : reasoning_tasks()) tasks.push_back(std::move(task));
    return tasks;
  }();
  return list;
}

const Task& find_task(std::string_view name) {
  std::string names;
  for (const Task& task : task_list()) {
    if (task.name == name) return task;
    names += (names.empty() ? "" : ", ") + std::string(task.name);
  }
  throw Error({.code = ExitCode::usage, .file = "--tasks", .found = in_quotes(name), .expected = "one of " + names});
}

TaskMaterial TaskMaterial::make(const Tokenizer& tokenizer, std::string_view filler_text, const ChatTemplate* chat,
                                std::uint64_t seed) {
  TaskMaterial material{.tokenizer = tokenizer, .chat = chat != nullptr, .seed = seed};
  material.filler = tokenizer.encode_typed(filler_text, false);
  material.line_starts = {0};
  for (std::size_t i = 0; i + 1 < material.filler.size(); ++i) {
    if (tokenizer.piece(material.filler[i]).ends_with('\n')) material.line_starts.push_back(i + 1);
  }
  material.before = tokenizer.encode_with_special("");
  if (chat == nullptr) return material;
  // The template's markup around a user's text: special tokens, at which every tokenizer cuts.
  constexpr std::string_view kPlace = "@@document@@";
  const std::string text = chat->render(std::vector<ChatMessage>{{"user", std::string(kPlace)}});
  const std::size_t at = text.find(kPlace);
  material.before = tokenizer.encode(text.substr(0, at));
  material.behind = tokenizer.encode(text.substr(at + kPlace.size()));
  return material;
}

TaskQuestion make_question(const Task& task, const TaskMaterial& material, std::uint64_t index, int length) {
  if (task.make != nullptr) return task.make(material, index, length);
  Random random(material.seed ^ stream_of(task.name), index);
  const TaskText text = task.write(random, length);
  if (text.haystack.empty()) return lay_out(task, text, material, random, length);
  return lay_out(task, text, with_haystack(material, text.haystack), random, length);
}

std::string filler_text(const std::string& given, const std::string& model) {
  if (!given.empty()) {
    std::string text = read_file(given, kMaxTextBytes);
    if (!text.empty()) return text;
    throw Error({.code = ExitCode::usage, .file = "--filler", .found = "no text", .expected = "English text"});
  }
  const auto path = std::filesystem::weakly_canonical(model).parent_path().parent_path() / "prompts" / "heldout.txt";
  if (std::filesystem::exists(path)) return read_file(path, kMaxTextBytes);
  throw Error({.file = path.string(),
               .found = "no such file",
               .expected = "English text that the model was not trained on",
               .hint = "give one with --filler FILE"});
}

double Task::mark_of(std::string_view expected, std::string_view answer) const {
  if (share != nullptr) return share(expected, answer);
  return mark(expected, answer) ? 1 : 0;
}

bool mark_beginning(std::string_view expected, std::string_view answer) {
  const std::size_t begin = answer.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return false;
  answer.remove_prefix(begin);
  if (!answer.starts_with(expected)) return false;
  return answer.size() == expected.size() || !std::isalnum(static_cast<unsigned char>(answer[expected.size()]));
}

bool mark_list(std::string_view expected, std::string_view answer) {
  const std::vector<std::string> wanted = first_words(expected, expected.size());
  return first_words(answer, wanted.size()) == wanted;
}

std::vector<std::string> alphanumeric_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    const bool was_inside = std::exchange(inside, std::isalnum(static_cast<unsigned char>(c)) != 0);
    if (inside && !was_inside) words.emplace_back();
    if (inside) words.back() += c;
  }
  return words;
}

std::string draw_thing(Random& random) {
  const auto adjective = kAdjectives[random.below(kAdjectives.size())];
  const auto noun = kNouns[random.below(kNouns.size())];
  return std::string(adjective) + " " + std::string(noun);
}

std::vector<std::string> draw_things(Random& random, int n) {
  std::vector<std::string> things;
  while (things.size() < static_cast<std::size_t>(n)) {
    std::string thing = draw_thing(random);
    if (std::find(things.begin(), things.end(), thing) == things.end()) things.push_back(std::move(thing));
  }
  return things;
}

std::string draw_code(Random& random) { return std::to_string(random.between(10000, 99999)); }

}  // namespace kvscope::engine
