// A machine without memory: the N-th large allocation of a command that reads files fails. It ends with the documented
// code and a line, or does without, and nobody calls terminate(). All of them: app_tests "[allocation_fault_all]".

#include <map>
#include <set>

#include "tests/app/capture_support.h"
#include "tests/app/preload.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

using Words = std::vector<std::string>;
constexpr int kInsideHdf5 = 199;  // fail_allocations.cpp
/// HDF5 does not look at everything that it gets as it starts: of a command's allocations 1.10.8 (Debian's) falls at one,
/// 1.10.4 (h5py's of 2019) at five.
constexpr int kMostInsideHdf5 = 6;

struct Reader {
  const char* name;
  Words words;
};

std::vector<Reader> readers() {
  const std::string model = sample_model().string(), source = source_folder().string();
  return {{"inspect", {"inspect", "a.h5"}},
          {"export .csv", {"export", "a.h5", "-o", "new.csv"}},
          {"export .html", {"export", "a.h5", "-o", "new.html"}},
          {"export .nc", {"export", "a.h5", "-o", "new.nc"}},
          {"figure", {"figure", "--preset", "kvpop-fig6", "a.h5", "-o", "new.svg"}},
          {"what-if", {"what-if", "a.h5", "streaming:window=8"}},
          {"compare", {"compare", "a.h5", "b.h5"}},
          {"heads", {"heads", "a.h5", "--strategy", "b", "--export", "duo:heads"}},
          {"merge", {"merge", "s0.h5", "s1.h5", "-o", "new.h5", "--quiet"}},
          {"gate convert .pt", {"gate", "convert", source + "/tests/core/golden/wg_kv_parameters.pt", "-o", "gate"}},
          {"gate convert", {"gate", "convert", model, "-o", "gate"}},
          {"tokenize", {"tokenize", model, "--text", "one two three"}},
          {"models", {"models"}}};
}

class Machine {
 public:
  Machine() {
    write_prompts(folder_, 3);
    for (const auto& [name, options] : std::map<std::string, Words>{
             {"a.h5", {}}, {"b.h5", {}}, {"s0.h5", {"--shard", "0/2"}}, {"s1.h5", {"--shard", "1/2"}}}) {
      REQUIRE(Capture{folder_, name, options}.run().exit_code == 0);
    }
    for (const auto& entry : fs::directory_iterator(folder_.path())) before_.insert(entry.path().filename().string());
  }
  /// Whether there was an N-th allocation.
  bool try_out(const Reader& reader, int at) {
    const std::set<std::string> made = {"new.nc",  "new.svg",  "new.csv", "new.figure.csv", "new.json",
                                        "new.tex", "new.html", "new.h5",  "heads",          "gate"};
    for (const std::string& name : made) fs::remove_all(folder_ / name);
    Words argv = {test::kvscope().string()};
    argv.insert(argv.end(), reader.words.begin(), reader.words.end());
    const Result result = test::run({.argv = argv,
                                     .environment = {{"LD_PRELOAD", preload(fault_library("allocations"))},
                                                     {"KVSCOPE_FAIL_LARGER", "1024"},
                                                     {"KVSCOPE_FAIL_AT", std::to_string(at)},
                                                     {"KVSCOPE_FAIL_MARK", (folder_ / "mark").string()}},
                                     .folder = folder_.path()});
    CAPTURE(reader.name, at, result.exit_code, result.killed_by, result.err);
    const bool came = fs::remove(folder_ / "mark");
    if (came && result.exit_code == kInsideHdf5) {
      CHECK(++inside_hdf5_[reader.name] <= kMostInsideHdf5);
      for (const auto& entry : fs::directory_iterator(folder_.path()))  // who crashes cleans nothing up
        if (!before_.contains(entry.path().filename().string())) fs::remove_all(entry.path());
      return true;
    }
    CHECK(result.killed_by == 0);
    if (!came) {
      CHECK(result.exit_code == 0);
      return false;
    }
    if (result.exit_code == 0) return true;  // a buffer that there are others for
    // 2: the reading child had none, which it says of the file that asked for it.
    check_error_line(result, result.exit_code == 2 ? 2 : 3, "");
    // Nothing is left half: what was written before it had no memory to say so is whole, under its own name.
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      CAPTURE(entry.path().string());
      CHECK((before_.contains(entry.path().filename().string()) || made.contains(entry.path().filename().string())));
      if (entry.is_directory()) CHECK(files_in(entry.path()) == 2);
    }
    return true;
  }
  /// Faults that came out of libhdf5, of all commands.
  int inside_hdf5() const {
    int n = 0;
    for (const auto& [name, faults] : inside_hdf5_) n += faults;
    return n;
  }

 private:
  TemporaryFolder folder_;
  std::set<std::string> before_;
  std::map<std::string, int> inside_hdf5_;
};

}  // namespace

TEST_CASE("A machine without memory gets a line from every command that reads files", "[allocation_fault]") {
  if (has_own_malloc()) return skip("malloc() is a sanitizer's");
  Machine machine;
  for (const Reader& reader : readers()) {
    int faults = 0;
    for (int at = 1; machine.try_out(reader, at); at += 1 + at / 2) ++faults;
    CAPTURE(reader.name);
    CHECK(faults >= 3);
  }
}

TEST_CASE("A machine without memory gets a line at every allocation", "[.slow][allocation_fault_all]") {
  if (has_own_malloc()) return skip("malloc() is a sanitizer's");
  Machine machine;
  int faults = 0;
  for (const Reader& reader : readers())
    for (int at = 1; machine.try_out(reader, at); ++at) ++faults;
  WARN(faults << " faults, " << machine.inside_hdf5() << " of them inside libhdf5");
  CHECK(faults >= 200);
}
