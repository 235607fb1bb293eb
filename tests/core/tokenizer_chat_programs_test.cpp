// Chat templates after those of today's families, against jinja2 (make_chat_programs.py), and templates that never end.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/core/files/tokenizer/template_run.h"
#include "tests/support/golden.h"

using kvscope::TemplateInput;
using kvscope::TemplateProblem;
using kvscope::TemplateRaised;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

/// The text, or null if the template fails; `reason` says why then.
json written(const std::string& text, const TemplateInput& input, std::string& reason) {
  try {
    return run_template(kvscope::read_template(text), input).text.text;
  } catch (const TemplateProblem& problem) {
    reason = problem.reason;
  } catch (const TemplateRaised& raised) {
    reason = "raised: " + raised.message;
  }
  return nullptr;
}

std::string repeated(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

std::vector<std::string> hostile_templates() {
  const std::string doubled = repeated(60, "{% set x = x + x %}"), nine = "{% for a in range(9) %}";
  return {
      "{{ range(10**9) }}",
      "{{ range(1000000000)|list|length }}",
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      repeated(20, "{% for i in range(1000) %}") + "x" + repeated(20, "{% endfor %}"),
      repeated(12, nine) + "x" + repeated(12, "{% endfor %}"),
      "{% for i in range(100000) %}{{ i }}{{ 'x' * 1000 }}{% endfor %}",
      "{% set x = 'ab' %}" + doubled + "{{ x }}",
      "{% set x = 'ab' %}" + repeated(60, "{% set x = x ~ x %}"),
      "{% set x = [1] %}" + doubled,
      "{% set x = [1] %}" + repeated(90, "{% set x = [x, x] %}") + "{{ x }}",
      "{% set x = [1] %}" + repeated(50, "{% set x = [x, x] %}") + "{{ x }}",
      "{% set x = [1] %}" + repeated(50, "{% set x = [x, x] %}") + "{{ x|tojson }}",
      "{% set x = [1] %}" + repeated(50, "{% set x = [x, x] %}") + "{{ x == [x] }}{{ x == x[:] }}",
      "{% set x = {'a': 1} %}" + repeated(50, "{% set x = {'a': x, 'b': x} %}") + "{{ x|tojson(indent=4) }}",
      "{{ 'x' * 10**9 }}",
      "{{ 'x' * 999999999999 }}",
      "{{ [0] * 10**9 }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '%-999999999s' % 'x' }}",
      "{{ '%.999999999f' % 1.5 }}",
      "{{ 'x'.center(10**9) }}",
      "{{ 'x'|center(10**9) }}",
      "{{ 'x'.ljust(999999999) }}",
      "{{ '1'.zfill(10**9) }}",
      "{{ 'a\nb'|indent(10**9) }}",
      "{{ [1]|tojson(indent=1000000000) }}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{{ g(n) }}{% endmacro %}{% macro g(n) %}{{ f(n + 1) ~ f(n + 1) }}{% endmacro %}{{ f(0) }}",
      "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
      "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
      "{% set ns = namespace() %}{% set ns.a = [ns, ns] %}{{ ns.a }}",
      "{% set ns = namespace(a=[]) %}{% for i in range(100000) %}{% set ns.a = [ns.a] %}{% endfor %}",
      "{% set ns = namespace(a='x') %}{% for i in range(100000) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
      "{% set ns = namespace(a={}) %}{% for i in range(99999) %}{% set ns.a = dict(ns.a, **{}) %}{% endfor %}",
      "{% set x = 'ab' * 100000 %}{% for i in range(100000) %}{% set y = x in x %}{{ x|replace('a', x) }}{% endfor %}",
      "{{ 2 ** 999999999 }}",
      "{{ " + repeated(150, "(") + "1" + repeated(150, ")") + " }}",
      repeated(5000, "{% if true %}"),
      "{{ " + repeated(190, "-") + "1 }}",
      "{{ (range(90000)|list + range(90000)|list)|sort|unique|list }}",
      "{% set x = 'a,' * 1000000 %}{{ x.split(',')|join(x) }}",
      "{{ strftime_now('%1000000000d') }}",
  };
}

struct Cost {
  double seconds = 0;
  long mebibytes = 0;
  std::string reason;
};

long resident_kib() {
  long pages = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/// In a process of its own, whose memory can be measured.
Cost cost_of(const std::string& text) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const long before = resident_kib();
    TemplateInput input;
    input.values["messages"] = ordered_json::array({{{"role", "user"}, {"content", "x"}}});
    std::string reason;
    if (!written(text, input, reason).is_null()) reason = "it was written";
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * t.tv_usec; };
    const json all{seconds(usage.ru_utime) + seconds(usage.ru_stime), (usage.ru_maxrss - before) / 1024, reason};
    const std::string line = all.dump(-1, ' ', false, json::error_handler_t::replace);
    _exit(write(ends[1], line.data(), line.size()) < 0);
  }
  close(ends[1]);
  std::string line(1 << 16, '\0');
  line.resize(static_cast<std::size_t>(std::max<ssize_t>(read(ends[0], line.data(), line.size()), 0)));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  if (line.empty()) return {99, 0, "it crashed"};
  const json all = json::parse(line);
  return {all[0].get<double>(), all[1].get<long>(), all[2].get<std::string>()};
}

}  // namespace

TEST_CASE("Templates of today's families write what jinja2 writes, with tools and without") {
  const json golden = kvscope::test::read_golden("tests/core/golden/chat_programs.json");
  REQUIRE(golden["templates"].size() >= 60);
  REQUIRE(golden["conversations"].size() == 12);
  int equal = 0;
  for (const json& t : golden["templates"]) {
    for (std::size_t i = 0; i < golden["conversations"].size(); ++i) {
      CAPTURE(t["name"], i);
      // As text, because the order of a tool's fields counts, which read_golden() does not keep.
      TemplateInput input{.values = ordered_json::parse(golden["conversations"][i].get<std::string>())};
      input.values.update(ordered_json::parse(t["given"].get<std::string>()));
      std::string reason;
      const json text = written(t["text"].get<std::string>(), input, reason);
      CAPTURE(reason);
      CHECK(text == t["texts"][i]);
      equal += text == t["texts"][i];
    }
  }
  std::printf("chat programs: %d conversations equal\n", equal);
}

TEST_CASE("A hostile template ends in one line within 2 s and 64 MiB") {
  double most_seconds = 0;
  long most_mebibytes = 0;
  const std::vector<std::string> all = hostile_templates();
  CHECK(all.size() >= 40);
  for (const std::string& text : all) {
    CAPTURE(text.substr(0, 200));
    const Cost cost = cost_of(text);
    CAPTURE(cost.reason);
    CHECK(cost.reason.starts_with("it"));
    CHECK(cost.reason != "it was written");
    CHECK(cost.reason != "it crashed");
    CHECK(cost.reason.find('\n') == std::string::npos);
    CHECK(cost.seconds < 2);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(cost.mebibytes < 64);
#endif
    most_seconds = std::max(most_seconds, cost.seconds);
    most_mebibytes = std::max(most_mebibytes, cost.mebibytes);
  }
  std::printf("hostile templates: at most %.3f s and %ld MiB\n", most_seconds, most_mebibytes);
}
