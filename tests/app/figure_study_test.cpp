// kvscope figure over studies, as files and processes: what it writes, what it refuses, and that it makes the same again.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "engine/core/trace/study_file.h"
#include "tests/app/capture_support.h"
#include "tests/support/study_literal.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

StudyTable small_study() {
  return {.kind = "sweep",
          .request = "{}",
          .facts = R"({"model":"small"})",
          .columns = {
              {.name = "policy", .units = "", .meaning = "", .is_text = true, .texts = {"full", "a:tau=1", "a:tau=2"}},
              {.name = "density", .units = "", .meaning = "kept", .numbers = {1, 0.5, 0.25}},
              {.name = "nll_difference", .units = "nats/token", .meaning = "", .numbers = {0, 0.1, 0.3}}}};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

TEST_CASE("figure draws a study of HDF5, and the recipe beside it makes the same bytes again") {
  const TemporaryFolder folder;
  const std::string study = (folder / "s.h5").string(), figure = (folder / "f.pdf").string();
  write_study(study, small_study(), false);
  REQUIRE(kvscope_run({"figure", "--preset", "spkv-fig3", study, "-o", figure}).exit_code == 0);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"f.figure.csv", "f.json", "f.pdf", "f.tex", "s.h5"});
  CHECK(read_text(folder / "f.figure.csv") ==
        "panel,quantity,series,x,value,low,high,n,on_front,knee\n"
        ",nll_difference,a,0.25,0.3,,,1,0,0\n,nll_difference,a,0.5,0.1,,,1,0,0\n"
        ",nll_difference,dense,,0,,,1,0,0\n");
  CHECK_THAT(read_text(folder / "f.tex"), Catch::Contains("{f}") && Catch::Contains("Model small."));
  const std::string first = read_text(figure);
  fs::remove(figure);
  REQUIRE(kvscope_run({"figure", (folder / "f.json").string(), "-o", figure}).exit_code == 0);
  CHECK(read_text(figure) == first);
}

TEST_CASE("a figure named as its study leaves the table alone that a sweep wrote beside the study") {
  const TemporaryFolder folder;
  const std::string study = (folder / "s.h5").string(), figure = (folder / "s.pdf").string();
  write_study(study, small_study(), false);
  std::ofstream(folder / "s.csv") << "the sweep's table";
  REQUIRE(kvscope_run({"figure", "--preset", "spkv-fig3", study, "-o", figure, "--overwrite"}).exit_code == 0);
  CHECK(read_text(folder / "s.csv") == "the sweep's table");
  CHECK(read_text(folder / "s.figure.csv").starts_with("panel,quantity"));
}

TEST_CASE("figure draws studies of several files one under another, and --set changes what it draws") {
  const TemporaryFolder folder;
  write_study(folder / "one_loss.h5", study_of("step,loss_boundary\n1,2\n2,1\n", kTrainingStudy), false);
  write_study(folder / "two.h5", study_of("step,loss_boundary\n1,3\n", kTrainingStudy), false);
  const auto result =
      kvscope_run({"figure", "--preset", "kvpop-fig5", (folder / "one_loss.h5").string(), (folder / "two.h5").string(),
                   "-o", (folder / "f.svg").string(), "--set", "log_y=true", "--set", "where=step<2"});
  REQUIRE(result.exit_code == 0);
  CHECK(read_text(folder / "f.figure.csv") ==
        "panel,quantity,series,x,value,low,high,n,on_front,knee\n"
        ",loss_boundary,one,1,2,,,1,0,0\n,loss_boundary,two,1,3,,,1,0,0\n");
  CHECK_THAT(read_text(folder / "f.json"), Catch::Contains("\"log_y\": true") && Catch::Contains("step<2"));
}

TEST_CASE("figure draws the curves of a training's folder, smoothed where asked: each point and the mean up to it") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "out/second");
  write_study(folder / "out/one_loss.h5", study_of("step,loss_boundary\n1,4\n2,2\n3,3\n", kTrainingStudy), false);
  write_study(folder / "out/second/two_loss.h5", study_of("step,loss_boundary\n1,8\n", kTrainingStudy), false);
  const auto figure = [&](const std::string& smooth) {
    return kvscope_run({"figure", "--preset", "kvpop-fig5", (folder / "out").string(), "-o",
                        (folder / "f.svg").string(), "--overwrite", "--set", "smooth=" + smooth});
  };
  REQUIRE(figure("2").exit_code == 0);
  CHECK(read_text(folder / "f.figure.csv") ==
        "panel,quantity,series,x,value,low,high,n,on_front,knee,smooth\n"
        ",loss_boundary,one,1,4,,,1,0,0,4\n,loss_boundary,one,2,2,,,1,0,0,3\n,loss_boundary,one,3,3,,,1,0,0,2.5\n"
        ",loss_boundary,two,1,8,,,1,0,0,8\n");
  CHECK_THAT(read_text(folder / "f.tex"), Catch::Contains("the mean of the last 2 points"));
  check_error_line(figure("0"), 2, "smooth: 0; expected 1 to 1000 points");
  fs::create_directories(folder / "empty");
  check_error_line(
      kvscope_run({"figure", "--preset", "kvpop-fig5", (folder / "empty").string(), "-o", (folder / "g.svg").string()}),
      2, "a folder without a training curve");
}

TEST_CASE("a figure that follows from its keys needs no file and takes none") {
  const TemporaryFolder folder;
  const std::string figure = (folder / "f.svg").string();
  REQUIRE(kvscope_run({"figure", "--preset", "spkv-fig7", "-o", figure, "--set", "share=0.5"}).exit_code == 0);
  CHECK_THAT(read_text(folder / "f.figure.csv"), Catch::Contains(",total_flops,50 % of the keys,"));
  check_error_line(kvscope_run({"figure", "--preset", "spkv-fig7", "a.h5", "-o", figure}), 1, "\"a.h5\"");
  check_error_line(kvscope_run({"figure", "--preset", "spkv-fig7", "-o", figure, "--set", "share=0"}), 2, "share");
}

TEST_CASE("a fit of scaling takes a table in text") {
  const TemporaryFolder folder;
  const std::string table = (folder / "t.csv").string(), figure = (folder / "f.svg").string();
  std::ofstream(table)
      << "family,train_flops,nll\nfull,1e18,3.2\nfull,1e19,2.9\nfull,1e20,2.7\nfull,1e21,2.6\nfull,1e23,2.5\n";
  REQUIRE(kvscope_run({"figure", "--preset", "spkv-fig2", table, "-o", figure}).exit_code == 0);
  CHECK_THAT(read_text(folder / "f.figure.csv"), Catch::Contains("full,1e+23,2.5,0,"));  // beyond what is fitted
  std::ofstream(table) << "family,train_flops,nll\nfull,1e18\n";
  check_error_line(kvscope_run({"figure", "--preset", "spkv-fig2", table, "-o", figure, "--overwrite"}), 2,
                   "t.csv: line 2: 2 cells");
}

TEST_CASE("figure refuses what is no study, or has not its columns, in a line and writes nothing") {
  const TemporaryFolder folder;
  const std::string study = (folder / "s.h5").string();
  write_study(study, small_study(), false);
  std::ofstream(folder / "text.h5") << "no HDF5";
  std::ofstream(folder / "old_loss.csv") << "step,loss_boundary\n1,2\n";
  const auto figure = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "figure");
    words.insert(words.end(), {"-o", (folder / "f.pdf").string()});
    return kvscope_run(words);
  };
  const std::vector<std::string> before = names_in(folder.path());
  check_error_line(figure({"--preset", "wgkv-fig7", study}), 2, "s.h5: \"item\": the study has no column of this name");
  check_error_line(figure({"--preset", "spkv-fig3", (folder / "text.h5").string()}), 2, "text.h5");
  check_error_line(figure({"--preset", "kvpop-fig5", (folder / "old_loss.csv").string()}), 2,
                   "old_loss.csv: a text file; expected a study (.h5); hint: kvscope eval and bench write one with -o "
                   "FILE.h5, and train writes NAME_loss.h5");
  check_error_line(figure({"--preset", "spkv-fig3", (folder / "none.h5").string()}), 2, "none.h5");
  check_error_line(figure({"--preset", "spkv-fig3"}), 1, "no study");
  check_error_line(figure({"--preset", "spkv-fig3", study, "--set", "colour=red"}), 2, "colour");
  check_error_line(figure({"--preset", "spkv-fig3", study, "--set", "x"}), 1, "KEY=VALUE");
  CHECK(names_in(folder.path()) == before);
}
