// The tasks in the style of HELMET: a short search finds every answer in its question, and shares are what plain loops count.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/core/study/measure/task_sets.h"
#include "engine/core/support/shuffle.h"
#include "tests/engine/task_text.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::engine;
using namespace kvscope::test;

namespace {

struct Asked {
  TaskQuestion question;
  std::string text;
};

/// Questions of two lengths, with their texts.
std::vector<Asked> questions(const char* task, std::initializer_list<int> lengths = {1000, 3000}) {
  const SampleMaterial m;
  std::vector<Asked> all;
  for (const int length : lengths) {
    for (std::uint64_t index = 0; index < 20; ++index) {
      TaskQuestion question = make_question(find_task(task), m.material, index, length);
      std::string text = m.tokenizer.decode(question.prompt);
      all.push_back({std::move(question), std::move(text)});
    }
  }
  return all;
}

/// The sum of grade / log2(rank + 1) over ten ranks.
double plain_gain(const std::vector<int>& ranked) {
  double sum = 0;
  for (std::size_t rank = 1; rank <= 10 && rank <= ranked.size(); ++rank)
    sum += ranked[rank - 1] * std::log(2.0) / std::log(rank + 1.0);
  return sum;
}

/// Of all orders.
double best_gain(std::vector<int> grades) {
  std::ranges::sort(grades);
  double best = 0;
  do best = std::max(best, plain_gain(grades));
  while (std::ranges::next_permutation(grades).found);
  return best;
}

/// Removes each word that both have from both, one for one, and counts.
double common_words(std::vector<std::string> a, std::vector<std::string> b) {
  double n = 0;
  for (const std::string& word : a) {
    const auto at = std::ranges::find(b, word);
    if (at != b.end()) b.erase(at), ++n;
  }
  return n;
}

std::string joined_words(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

}  // namespace

TEST_CASE("the ranking of passages follows from who and what they name", "[eval]") {
  if (!has_sample_tokenizer()) return skip("no sample model");
  const Task& task = find_task("rerank");
  std::set<std::string> answers;
  for (const auto& [question, text] : questions("rerank")) {
    const std::string query = one_of(last_line(text), "to the query \"(.*)\"");
    const std::string person = one_of(query, "([A-Z][a-z]+ [A-Z][a-z]+-[A-Z][a-z]+)");
    const std::string verb = query.starts_with("Which pets")    ? "keeps a"
                             : query.starts_with("Which games") ? "likes to play"
                                                                : "has lived in the city of";
    const std::string about = "Passage (\\d{4}): " + person + " ";
    const Found best = all_of(text, about + verb + " \\w+\\.");
    Found others = all_of(text, about);
    std::erase_if(others, [&](const std::string& number) { return std::ranges::find(best, number) != best.end(); });
    CAPTURE(query, question.expected);
    CHECK(best.size() == 4);
    CHECK(others.size() == 6);
    const std::string first = joined_words(best, " > "), then = joined_words(others, " > ");
    CHECK(task.share(question.expected, first + " > " + then) == 1);
    CHECK(task.share(question.expected, then + " > " + first) < 0.8);
    CHECK(task.share(question.expected, first) < 0.8);
    // Others keep pets too: what names them is no better than what names nothing.
    const Found same = all_of(text, "Passage (\\d{4}): [A-Za-z -]+ " + verb + " \\w+\\.");
    CHECK(same.size() > best.size());
    const Found all = all_of(text, "Passage (\\d{4}): ");
    CHECK(std::set<std::string>(all.begin(), all.end()).size() == all.size());
    answers.insert(question.expected);
  }
  CHECK(answers.size() > 18);
}

TEST_CASE("NDCG is the gain of a ranking by the greatest gain of any", "[eval]") {
  const Task& task = find_task("rerank");
  const std::vector<std::string> two = {"1001", "1002", "1003", "1004"},
                                 one = {"2001", "2002", "2003", "2004", "2005", "2006"};
  const std::string expected = joined_words(two, ", ") + "; " + joined_words(one, ", ");
  const double best = best_gain({3, 3, 3, 3, 1, 1, 1, 1, 1, 1});
  Random random(3);
  double least = 1, most = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<std::string> answer = two;
    answer.insert(answer.end(), one.begin(), one.end());
    for (int n = 3001; n < 3001 + i % 20; ++n) answer.push_back(std::to_string(n));
    shuffle(random, answer);
    answer.resize(random.below(answer.size() + 1));
    std::vector<int> grades;
    for (const std::string& number : answer) grades.push_back(number[0] == '1' ? 3 : number[0] == '2' ? 1 : 0);
    if (!answer.empty()) answer.push_back(answer[random.below(answer.size())]);  // again, which counts for nothing
    const double share = task.share(expected, " " + joined_words(answer, i % 2 == 0 ? ", " : "\n- "));
    CHECK(share == Approx(plain_gain(grades) / best));
    least = std::min(least, share), most = std::max(most, share);
  }
  CHECK(least == 0);
  CHECK(most > 0.8);
  CHECK(task.share(expected, expected) == 1);
}

TEST_CASE("the label of a text follows from the examples that it is like, and from nothing else", "[eval]") {
  if (!has_sample_tokenizer()) return skip("no sample model");
  std::map<std::string, std::set<std::string>> labels;  // by the verb of the text that is asked for
  const std::regex name("Anna|Peter|Maria|James|Laura|Simon|Helen|David|Julia|Oscar|Alice|Martin");
  const auto words_of_text = [&](const std::string& text) {
    return alphanumeric_words(std::regex_replace(text, name, "name"));
  };
  for (const auto& [question, text] : questions("many-shot", {3000, 5000})) {
    const std::string asked = one_of(text, "Label: \\d\n\n([^\n]+)\nLabel:$");  // the last example is a whole one
    const std::vector<std::string> words = words_of_text(asked);
    CAPTURE(asked);
    std::map<std::string, int> found;
    const std::regex example("\n([^\n]+)\nLabel: (\\d)");
    for (std::sregex_iterator at(text.begin(), text.end(), example), end; at != end; ++at) {
      const std::vector<std::string> other = words_of_text((*at)[1]);
      if (other.size() != words.size()) continue;
      int different = 0;
      for (std::size_t i = 0; i < words.size(); ++i) different += other[i] != words[i];
      CHECK(different > 0);  // the word is in no example
      if (different == 1) ++found[(*at)[2]];
    }
    REQUIRE(found.size() == 1);
    CHECK(found.begin()->first == question.expected);
    labels[words[words[0] == "The" ? 2 : 1]].insert(question.expected);
  }
  std::size_t most = 0;
  for (const auto& [verb, of_verb] : labels) most = std::max(most, of_verb.size());
  CHECK(most > 2);
}

TEST_CASE("every key fact of a summary is in the report, and a list of them is a perfect summary", "[eval]") {
  if (!has_sample_tokenizer()) return skip("no sample model");
  const Task& task = find_task("summary");
  for (const auto& [question, text] : questions("summary")) {
    const std::string house = one_of(last_line(text), "the report on the (.*):");
    const Found parts = all_of(text, "\n(Report on the " + house + ", part [1-6]: [^\n]+)\n");
    CHECK(parts.size() == 6);
    Found facts;
    for (const char* pattern : {"in the city of (\\w+)\\.", "has (\\d+) rooms", "Its owner is ([A-Za-z -]+)\\.",
                                "once a (\\w+)\\.", "keeps a (\\w+)\\.", "like to play (\\w+)\\."})
      facts.push_back(one_of(joined_words(parts, "\n"), pattern));
    CAPTURE(question.expected);
    CHECK(all_of(question.expected, "\\*([^*]+)\\*").size() == 6);
    CHECK(task.share(question.expected, joined_words(facts, ", ")) == 1);
    for (const std::string& fact : facts) {
      Found rest = facts;
      std::erase(rest, fact);
      CHECK(task.share(question.expected, joined_words(rest, ", ")) == Approx(10 / 11.0));  // P 1, R 5/6
    }
    CHECK(task.share(question.expected, joined_words(parts, " ")) < 0.8);  // all of the report: R 1, but a small P
  }
}

TEST_CASE("the share of a summary is F1 of key facts and of words, as plain loops count them", "[eval]") {
  const Task& task = find_task("summary");
  const std::vector<std::string> reference = {"a", "*b*", "c", "*d", "e*", "a", "*f*", "g"},
                                 plain = {"a", "b", "c", "d", "e", "a", "f", "g"};
  Random random(4);
  std::set<int> recalled;
  for (int i = 0; i < 500; ++i) {
    std::vector<std::string> answer(random.below(16));
    for (std::string& word : answer) word = static_cast<char>('a' + random.below(12));
    const auto has = [&](const char* word) { return std::ranges::find(answer, word) != answer.end(); };
    const int facts = has("b") + (has("d") && has("e")) + has("f");
    const double recall = facts / 3.0;
    const double precision = answer.empty() ? 0 : common_words(answer, plain) / static_cast<double>(answer.size());
    const double f1 = recall > 0 ? 2 / (1 / recall + 1 / precision) : 0;
    CHECK(task.share(joined_words(reference, " "), joined_words(answer, i % 2 == 0 ? " " : ", ")) == Approx(f1));
    recalled.insert(facts);
  }
  CHECK(recalled.size() == 4);
}

TEST_CASE("names of sets expand to their tasks in their place, each once", "[eval]") {
  const std::vector<std::string> tasks = expanded_tasks({"passkey", "ruler", "helmet"});
  CHECK(tasks.size() == 1 + kRulerTasks.size() + kHelmetTasks.size() - 2);  // both ask qa-paragraph and qa-hops
  CHECK(tasks.front() == "passkey");
  CHECK(tasks.back() == "many-shot");
  for (const std::string& name : tasks) CHECK(find_task(name).name == name);
  CHECK(std::set<std::string>(tasks.begin(), tasks.end()).size() == tasks.size());
  CHECK(expanded_tasks({"birthplace", "ruler", "passkey"}).size() == 15);
  CHECK(expanded_tasks({"needle", "needle"}).size() == 2);  // which the engine refuses
}
