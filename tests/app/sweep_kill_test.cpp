// 200 points, killed 20 times. Takes a minute: app_tests "[sweep_kills]".

#include "engine/core/support/random.h"
#include "tests/app/sweep_support.h"

using namespace kvscope;
using namespace kvscope::test;

TEST_CASE("a sweep of 200 points killed 20 times at random has each once and equals the undisturbed one",
          "[.slow][sweep_kills]") {
  const TemporaryFolder folder;
  json windows = json::array(), keeps = json::array();
  for (int i = 0; i < 20; ++i) windows.push_back(1 + i);
  for (int i = 0; i < 10; ++i) keeps.push_back(std::to_string(95 - 5 * i) + "%");
  json recipe = usual_recipe();
  recipe["policies"] = {{{"policy", "h2o"}, {"axes", {{"window", windows}, {"keep", keeps}}}}};
  recipe["chunk"] = 1;
  recipe["seeds"] = 1;
  write_recipe(folder, recipe);
  const StudyTable whole = undisturbed_sweep(folder);
  REQUIRE(whole.n_points() == 201 * 3);
  const std::size_t n_answers = 201 * (2 * 3 + 4);

  const Sweep slow{.folder = folder, .options = {"--jobs", "2"}, .engine = fake_engine().string() + " --slow 10"};
  Random random(20261123);
  int kills = 0, in_the_middle = 0, whole_sweeps = 0;
  while (kills < 20) {
    const double kill_after = 0.02 + 1.2 * random.uniform();
    const auto result = slow.run(kill_after);
    CAPTURE(kills, kill_after, result.err);
    REQUIRE((result.exit_code == 0 || result.exit_code == -1));
    if (result.exit_code == -1) {
      ++kills;
      const auto n = fs::exists(folder / "s.h5.answers") ? answers_in(folder / "s.h5.answers").size() : 0;
      in_the_middle += n > 0 && n < n_answers;
      continue;
    }
    CHECK(study_difference(slow.study(), whole) == "");
    for (const char* name : {"s.h5", "s.csv", "s.h5.answers"}) fs::remove(folder / name);
    ++whole_sweeps;
  }
  const auto result = Sweep{folder}.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto answers = answers_in(folder / "s.h5.answers");
  CHECK(answers.size() == n_answers);
  for (const auto& [key, n] : answers) REQUIRE((key + " " + std::to_string(n)) == key + " 1");
  CHECK(study_difference(Sweep{folder}.study(), whole) == "");
  WARN(kills << " kills, " << in_the_middle << " of them between the first and the last answer, " << whole_sweeps
             << " sweeps whole before the last");
  CHECK(in_the_middle >= 10);
}
