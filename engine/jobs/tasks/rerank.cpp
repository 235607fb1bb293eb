// Passages in order of their relevance to a query (HELMET's re-ranking).
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <span>

#include "engine/core/support/shuffle.h"
#include "engine/jobs/tasks/people.h"
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr std::size_t kBest = 4, kOthers = 3;  // passages that answer the query; on each other topic of the person
constexpr std::size_t kRanks = 10, kDigits = 4;
constexpr int kTokensPerPassage = 15;  // at least, of any tokenizer
constexpr double kRoom = 1.5;          // for other marks between the numbers
constexpr char kNextGrade = ';';       // between passages of different relevance in the expected text

/// What passages say of people, and the query for it.
struct Topic {
  std::string_view verb, query, query_end;
  std::span<const std::string_view> values;
};
constexpr Topic kTopics[] = {{" keeps a ", "Which pets does ", " keep?", kPets},
                             {" likes to play ", "Which games does ", " like?", kGames},
                             {" has lived in the city of ", "In which cities has ", " lived?", kCities}};

/// Makes passages, all with different numbers.
class Passages {
 public:
  explicit Passages(Random& random) : random_(random) {}
  /// The number of the last one is number().
  std::string make(const std::string& person, const Topic& topic, std::string_view value) {
    do {
      number_ = std::to_string(random_.between(1000, 9999));
    } while (!numbers_.insert(number_).second);
    return "Passage " + number_ + ": " + person + std::string(topic.verb) + std::string(value) + ".";
  }
  const std::string& number() const { return number_; }

 private:
  Random& random_;
  std::string number_;
  std::set<std::string> numbers_;
};

TaskText write(Random& random, int length) {
  std::set<std::string> people;
  Passages passages(random);
  const std::string person = draw_person(random, people);
  const Topic& asked = kTopics[random.below(std::size(kTopics))];
  const std::string query = std::string(asked.query) + person + std::string(asked.query_end);
  TaskText text{
      .statements = {},
      .question = "Rank the passages by relevance to the query \"" + query +
                  "\": first those that answer it, then the others about the same person. Write the numbers of the ten "
                  "most relevant passages, the most relevant one first.",
      .lead = "By relevance to the query \"" + query + "\", the ten best passages are the passages",
      .answer = "",
      .room = kRoom};
  std::string others;
  for (const Topic& topic : kTopics) {
    auto values = shuffled(random, topic.values);
    values.resize(&topic == &asked ? kBest : kOthers);
    for (const std::string_view value : values) {
      text.statements.push_back(passages.make(person, topic, value));
      std::string& list = &topic == &asked ? text.answer : others;
      list += (list.empty() ? "" : ", ") + passages.number();
    }
  }
  text.answer += kNextGrade + (" " + others);
  shuffle(random, text.statements);
  for (int i = std::clamp(length / kTokensPerPassage, 1, kMostPeople); i > 0; --i) {
    const Topic& topic = kTopics[random.below(std::size(kTopics))];
    const std::string other = draw_person(random, people);
    text.haystack.push_back(passages.make(other, topic, topic.values[random.below(topic.values.size())]));
  }
  return text;
}

bool is_number(std::string_view word) {
  return word.size() == kDigits && std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// DCG: the sum over ranks r = 1 ... kRanks of grade / log2(r + 1).
double gain(std::span<const int> grades) {
  double sum = 0;
  for (std::size_t i = 0; i < std::min(grades.size(), kRanks); ++i)
    sum += grades[i] / std::log2(static_cast<double>(i + 2));
  return sum;
}

/// NDCG@10 with linear gain, as trec_eval has it, and grades of TREC's scale: passages that answer the query have 3, others about
/// the person 1. A number that is no passage's takes a rank; one that was there before takes none.
double share(std::string_view expected, std::string_view answer) {
  const std::size_t next = expected.find(kNextGrade);
  std::map<std::string, int> grades;
  std::vector<int> ideal, ranked;
  for (const int grade : {3, 1}) {
    for (std::string& number : alphanumeric_words(grade == 3 ? expected.substr(0, next) : expected.substr(next))) {
      grades[std::move(number)] = grade;
      ideal.push_back(grade);
    }
  }
  std::set<std::string> seen;
  for (const std::string& word : alphanumeric_words(answer)) {
    if (!is_number(word) || !seen.insert(word).second) continue;
    const auto found = grades.find(word);
    ranked.push_back(found == grades.end() ? 0 : found->second);
  }
  return gain(ranked) / gain(ideal);
}

}  // namespace

Task rerank_task() {
  return {.name = "rerank",
          .definition = "Numbered passages about people; the answer is the numbers in order of relevance to a query.",
          .write = write,
          .share = share};
}

}  // namespace kvscope::engine
