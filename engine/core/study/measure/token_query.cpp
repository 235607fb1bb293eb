#include "engine/core/study/measure/token_query.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <unordered_map>

#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/read_metrics.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/measure/token_pattern.h"
#include "engine/core/support/error.h"
#include "engine/core/support/trim.h"

namespace kvscope {

struct TokenQuery::Term {
  enum class Kind : std::uint8_t { text, pattern, kind_of_text, id, state, origin, oracle, number } kind = Kind::text;
  bool negated = false;
  std::string text;  // of a text what is searched for, else the word
  bool any_case = false;
  double value = 0;
  std::string op;
  std::optional<TokenPattern> pattern = {};
};

namespace {

using Term = TokenQuery::Term;
using Kind = TokenQuery::Term::Kind;

constexpr std::string_view kStates[] = {"sink", "window", "kept", "evicted", "unread", "undecided", "future", "cached"};
constexpr std::string_view kOrigins[] = {"from:prompt", "from:answer"};
constexpr std::string_view kOracle[] = {"oracle:kept", "oracle:dropped", "missed"};
constexpr std::string_view kNumbers[] = {"score", "mass", "logprob", "heads", "position", "age", "id"};
constexpr std::string_view kOps[] = {">=", "<=", "!=", ">", "<", "="};  // the long ones first

template <typename List>
bool among(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != std::end(list);
}

std::string join(std::span<const std::string_view> words) {
  std::string all;
  for (const std::string_view word : words) all += (all.empty() ? "" : ", ") + std::string(word);
  return all;
}

[[noreturn]] void refuse_term(std::string_view term, const std::string& expected) {
  throw Error({ExitCode::usage, "", "find", in_quotes(term), expected, ""});
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Where the pattern ends that begins at text[at], a slash: at the slash behind which nothing of the term stands. npos: it is
/// none, as "/usr/bin".
std::size_t end_of_pattern(std::string_view text, std::size_t at) {
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '/' && i > at + 1) {
      const std::string_view rest = trim(text.substr(i + 1));
      if (rest.empty() || rest.starts_with('&')) return i;
    }
  }
  return std::string_view::npos;
}

/// Cut at "&" outside of quotes and patterns.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  bool quoted = false;
  std::size_t from = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool begins = text.substr(from, i - from).find_first_not_of(" \t!") == std::string_view::npos;
    if (begins && i < text.size() && text[i] == '/') {
      if (const std::size_t end = end_of_pattern(text, i); end != std::string_view::npos) i = end + 1;
    }
    if (i < text.size() && text[i] == '"') quoted = !quoted;
    if (i < text.size() && (text[i] != '&' || quoted)) continue;
    parts.push_back(trim(text.substr(from, i - from)));
    from = i + 1;
  }
  return parts;
}

Term text_term(std::string_view text) {
  Term term{.kind = Kind::text, .text = std::string(text)};
  term.any_case = std::ranges::none_of(text, [](char c) { return c >= 'A' && c <= 'Z'; });
  return term;
}

double number_of(std::string_view term, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    refuse_term(term, "a number after \"" + std::string(term.substr(0, term.size() - text.size())) + "\"");
  return value;
}

/// A name, an operator, a number: nothing if the text does not look like one.
std::shared_ptr<Term> comparison(std::string_view text) {
  const std::size_t name_end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  if (name_end == 0 || name_end == std::string_view::npos) return nullptr;
  const std::string_view name = text.substr(0, name_end), rest = trim(text.substr(name_end));
  for (const std::string_view op : kOps) {
    if (!rest.starts_with(op)) continue;
    if (!among(kNumbers, name)) refuse_term(text, "one of " + join(kNumbers) + " to compare, or the text in quotes");
    return std::make_shared<Term>(Term{.kind = Kind::number,
                                       .text = std::string(name),
                                       .value = number_of(text, trim(rest.substr(op.size()))),
                                       .op = std::string(op)});
  }
  return nullptr;
}

std::shared_ptr<Term> parse_term(std::string_view text) {
  if (text.starts_with('"')) {
    if (text.size() < 3 || text.back() != '"') refuse_term(text, "text between two quotes");
    return std::make_shared<Term>(text_term(text.substr(1, text.size() - 2)));
  }
  if (text.starts_with('/') && end_of_pattern(text, 0) == text.size() - 1)
    return std::make_shared<Term>(
        Term{.kind = Kind::pattern, .pattern = TokenPattern(text.substr(1, text.size() - 2))});
  if (text.starts_with("class:")) {
    const std::string_view name = text.substr(6);
    if (!among(kTokenClasses, name))
      refuse_term(text, "class: with one of " + join(kTokenClasses) + ", or the text in quotes");
    return std::make_shared<Term>(Term{.kind = Kind::kind_of_text, .text = std::string(name)});
  }
  if (text.starts_with('#') && text.size() > 1) {
    const std::string_view digits = text.substr(1);
    if (digits.find_first_not_of("0123456789") != std::string_view::npos || digits.size() > 9)
      refuse_term(text, "a token id after \"#\", or the text in quotes");
    return std::make_shared<Term>(Term{.kind = Kind::id, .text = "id", .value = number_of(text, digits)});
  }
  for (const auto& [list, kind] : {std::pair{std::span<const std::string_view>(kStates), Kind::state},
                                   {std::span<const std::string_view>(kOrigins), Kind::origin},
                                   {std::span<const std::string_view>(kOracle), Kind::oracle}}) {
    if (among(list, text)) return std::make_shared<Term>(Term{.kind = kind, .text = std::string(text)});
  }
  if (text.starts_with("from:")) refuse_term(text, "from:prompt or from:answer, or the text in quotes");
  if (text.starts_with("oracle:")) refuse_term(text, "oracle:kept or oracle:dropped, or the text in quotes");
  if (auto term = comparison(text)) return term;
  return std::make_shared<Term>(text_term(text));
}

bool compare(double a, std::string_view op, double b) {
  if (op == ">") return a > b;
  if (op == ">=") return a >= b;
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  return op == "=" ? a == b : !std::isnan(a) && a != b;
}

/// One search over one run: which tokens a term has.
class Matcher {
 public:
  Matcher(const RunRecord& run, int layer, int kv_head, std::int32_t q)
      : run_(run), geometry_(run.geometry()), layer_(layer), kv_head_(kv_head), q_(q), n_(run.n_tokens()) {}

  /// Calls take(t) with every token of the term, whatever its sign, ascending; returns the starts of a text.
  std::vector<std::int32_t> mark(const Term& term, std::vector<std::uint8_t>& marked) const {
    if (term.kind == Kind::text) return mark_text(term, marked);
    const auto matches = matcher(term);
    for (std::int32_t t = 0; t < n_; ++t) marked[static_cast<std::size_t>(t)] = matches(t);
    return {};
  }

 private:
  std::vector<std::int32_t> mark_text(const Term& term, std::vector<std::uint8_t>& marked) const {
    std::vector<std::int32_t> starts;
    std::string bytes = run_.pieces.bytes();
    if (term.any_case) std::ranges::transform(bytes, bytes.begin(), lower);
    const std::vector<std::int64_t>& offsets = run_.pieces.offsets();
    const auto token_at = [&](std::size_t byte) {
      const auto after = std::ranges::upper_bound(offsets, static_cast<std::int64_t>(byte));
      return static_cast<std::int32_t>(after - offsets.begin()) - 1;
    };
    for (std::size_t at = bytes.find(term.text); at != std::string::npos; at = bytes.find(term.text, at + 1)) {
      const std::int32_t first = token_at(at), last = token_at(at + term.text.size() - 1);
      if (last >= n_) break;
      if (starts.empty() || starts.back() != first) starts.push_back(first);
      for (std::int32_t t = first; t <= last; ++t) marked[static_cast<std::size_t>(t)] = 1;
    }
    return starts;
  }

  std::function<bool(std::int32_t)> matcher(const Term& term) const {
    switch (term.kind) {
      case Kind::pattern:
        return of_text([&term](std::string_view piece) { return term.pattern->matches(piece); });
      case Kind::kind_of_text: {
        const auto at = std::ranges::find(kTokenClasses, term.text) - std::begin(kTokenClasses);
        return of_text([wanted = static_cast<TokenClass>(at)](auto piece) { return is_of_class(piece, wanted); });
      }
      case Kind::id:
        return [this, id = term.value](std::int32_t t) { return run_.ids[static_cast<std::size_t>(t)] == id; };
      case Kind::state:
        return state_matcher(term.text);
      case Kind::origin:
        return [this, prompt = term.text == "from:prompt"](std::int32_t t) { return (t < run_.prompt_len) == prompt; };
      case Kind::oracle:
        return oracle_matcher(term.text);
      case Kind::number:
      case Kind::text:
        break;
    }
    return [value = number(term.text), &term](std::int32_t t) { return compare(value(t), term.op, term.value); };
  }

  /// Asked once of each text: a run has few of them.
  std::function<bool(std::int32_t)> of_text(std::function<bool(std::string_view)> matches) const {
    const auto known = std::make_shared<std::unordered_map<std::string_view, bool>>();
    return [this, matches = std::move(matches), known](std::int32_t t) {
      const std::string_view piece = run_.pieces[static_cast<std::size_t>(t)];
      const auto found = known->find(piece);
      return found != known->end() ? found->second : known->emplace(piece, matches(piece)).first->second;
    };
  }

  std::int32_t lifetime(int kv_head, std::int32_t t) const {
    const auto& row = run_.evict_at.row(layer_, kv_head);
    return static_cast<std::size_t>(t) < row.size() ? row[static_cast<std::size_t>(t)] : kUndecided;
  }
  TokenState state(std::int32_t t) const { return token_state(run_, geometry_, q_, t, lifetime(kv_head_, t)); }

  std::function<bool(std::int32_t)> state_matcher(std::string_view word) const {
    const auto reads = std::make_shared<const HeadReads>(run_, layer_, kv_head_, q_);
    const auto cached = [](TokenState s) {
      return s == TokenState::sink || s == TokenState::window || s == TokenState::kept;
    };
    if (word == "cached") return [this, cached](std::int32_t t) { return cached(state(t)); };
    const auto at = std::ranges::find(kStates, word) - std::begin(kStates);
    constexpr TokenState kWanted[] = {TokenState::sink,   TokenState::window,    TokenState::kept,  TokenState::evicted,
                                      TokenState::unread, TokenState::undecided, TokenState::future};
    return [this, reads, cached, wanted = kWanted[at]](std::int32_t t) {
      const TokenState s = state(t);
      return (cached(s) && !reads->reads(t) ? TokenState::unread : s) == wanted;
    };
  }

  std::function<bool(std::int32_t)> oracle_matcher(std::string_view word) const {
    if (run_.future_mass.empty() || run_.oracle_horizon == 0)
      throw Error({ExitCode::bad_input, "", "find", "this run has no oracle", "", ""});
    const auto set = std::make_shared<const OracleSet>(run_, layer_, kv_head_, q_);
    if (word == "oracle:kept") return [set](std::int32_t t) { return set->judges(t) && set->keeps(t); };
    if (word == "oracle:dropped") return [set](std::int32_t t) { return set->judges(t) && !set->keeps(t); };
    return [this, set](std::int32_t t) { return set->judges(t) && set->keeps(t) && state(t) == TokenState::evicted; };
  }

  std::function<double(std::int32_t)> series(std::string_view name, const HeadSeries<float>& values) const {
    const auto is_none = [](float value) { return std::isnan(value); };
    if (values.empty() || std::ranges::all_of(values.row(layer_, kv_head_), is_none))
      throw Error({ExitCode::bad_input, "", "find", "this head has no " + std::string(name), "", ""});
    const std::vector<float>* row = &values.row(layer_, kv_head_);
    return [row](std::int32_t t) -> double {
      return static_cast<std::size_t>(t) < row->size() ? (*row)[static_cast<std::size_t>(t)] : NAN;
    };
  }

  std::function<double(std::int32_t)> number(std::string_view name) const {
    if (name == "score") return series(name, run_.scores);
    if (name == "mass") return series(name, run_.future_mass);
    if (name == "position") return [](std::int32_t t) -> double { return t; };
    if (name == "age") return [this](std::int32_t t) -> double { return t <= q_ ? q_ - t : NAN; };
    if (name == "id") return [this](std::int32_t t) -> double { return run_.ids[static_cast<std::size_t>(t)]; };
    if (name == "logprob") {
      return [this](std::int32_t t) -> double {
        return static_cast<std::size_t>(t) < run_.logprobs.size() ? run_.logprobs[static_cast<std::size_t>(t)] : NAN;
      };
    }
    return [this](std::int32_t t) -> double {
      if (t > q_) return NAN;
      int heads = 0;
      for (int h = 0; h < run_.evict_at.n_kv_heads(); ++h) heads += visible(q_, t, lifetime(h, t));
      return heads;
    };
  }

  const RunRecord& run_;
  RetentionGeometry geometry_;
  int layer_, kv_head_;
  std::int32_t q_, n_;
};

}  // namespace

TokenQuery TokenQuery::parse(std::string_view text) {
  TokenQuery query;
  if (trim(text).empty()) return query;
  for (std::string_view part : split(text)) {
    bool negated = false;
    while (part.starts_with('!')) negated = !negated, part = trim(part.substr(1));
    if (part.empty()) refuse_term(trim(text), "a word, a text or a comparison on both sides of \"&\" and after \"!\"");
    const auto term = parse_term(part);
    term->negated = negated;
    query.terms_.push_back(term);
  }
  return query;
}

bool TokenQuery::depends_on_query() const {
  return std::ranges::any_of(terms_, [](const auto& term) {
    return term->kind == Kind::state || term->kind == Kind::oracle || term->kind == Kind::number;
  });
}

TokenHits TokenQuery::find(const RunRecord& run, int layer, int kv_head, std::int32_t q) const {
  TokenHits hits;
  if (terms_.empty() || run.evict_at.empty()) return hits;
  const Matcher matcher(run, layer, kv_head, q);
  const auto n = static_cast<std::size_t>(run.n_tokens());
  std::vector<std::uint8_t> all(n, 1), marked(n);
  std::vector<std::int32_t> starts;
  for (const auto& term : terms_) {
    std::ranges::fill(marked, 0);
    starts = matcher.mark(*term, marked);
    for (std::size_t t = 0; t < n; ++t) all[t] &= marked[t] != static_cast<std::uint8_t>(term->negated);
  }
  for (std::size_t t = 0; t < n; ++t) {
    if (all[t] != 0) hits.tokens.push_back(static_cast<std::int32_t>(t));
  }
  const bool one_text = terms_.size() == 1 && terms_[0]->kind == Kind::text && !terms_[0]->negated;
  hits.starts = one_text ? std::move(starts) : hits.tokens;
  return hits;
}

}  // namespace kvscope
