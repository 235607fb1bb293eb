#include "engine/core/record/oracle_text.h"

#include <charconv>

#include "engine/core/support/error.h"

namespace kvscope {
namespace {

[[noreturn]] void bad(std::string_view key, std::string_view value, const char* expected) {
  throw Error({.code = ExitCode::usage,
               .file = "oracle",
               .where = std::string(key),
               .found = "\"" + escape_for_terminal(value) + "\"",
               .expected = expected});
}

bool one_of(std::string_view key, std::string_view value, std::string_view no, std::string_view yes,
            const char* expected) {
  if (value != no && value != yes) bad(key, value, expected);
  return value == yes;
}

void set(OracleSpec& spec, std::string_view key, std::string_view value) {
  if (key == "agg") {
    spec.aggregate =
        one_of(key, value, "max", "mean", "max or mean") ? OracleSpec::Aggregate::mean : OracleSpec::Aggregate::max;
  } else if (key == "mass") {
    spec.normalised = !one_of(key, value, "mean", "sum", "mean or sum");
  } else if (key == "lse") {
    spec.sparse_lse = one_of(key, value, "dense", "sparse", "dense or sparse");
  } else if (key == "ahead") {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), spec.look_ahead);
    if (error != std::errc() || end != value.data() + value.size() || spec.look_ahead < 0 ||
        spec.look_ahead > 1 << 24) {
      bad(key, value, "a whole number from 0 (to the end) to 16777216");
    }
  } else {
    bad(key, value, "one of agg, mass, lse, ahead");
  }
}

}  // namespace

OracleSpec OracleSpec::parse(std::string_view text) {
  OracleSpec spec;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(','));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) bad(pair, "", "key=value with one of agg, mass, lse, ahead");
    set(spec, pair.substr(0, equals), pair.substr(equals + 1));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
  }
  return spec;
}

std::string OracleSpec::to_string() const {
  return std::string("agg=") + (aggregate == Aggregate::max ? "max" : "mean") +
         ",mass=" + (normalised ? "mean" : "sum") + ",lse=" + (sparse_lse ? "sparse" : "dense") +
         ",ahead=" + std::to_string(look_ahead);
}

std::string OracleSpec::definition() const {
  const std::string queries = look_ahead == 0 ? "all queries" : "the " + std::to_string(look_ahead + 1) + " queries";
  return std::string(aggregate == Aggregate::max ? "largest over the group" : "mean of logarithms over the group") +
         " of the " + (normalised ? "mean" : "sum") + " of the dense teacher's attention from " + queries +
         " after the token left the window" + (sparse_lse ? ", normalised over what the policy kept" : "");
}

}  // namespace kvscope
