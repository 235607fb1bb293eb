// Every command that writes, on a disk that fails at the N-th call: the error is said, what was there stays, nothing
// strange is left, and once there is space again the same command succeeds. Some of the calls here; all of them with
// app_tests "[write_fault_all]", which takes minutes; KVSCOPE_WRITERS=capture: only commands with this in their name.

#include "tests/app/capture_support.h"
#include "tests/app/preload.h"
#include "tests/app/writers.h"
#include "tests/support/folders.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

struct Fault {
  std::string how;
  int at = 0;
};

class Disk {
 public:
  /// In a folder of its own, as prepared; whether the fault came.
  bool try_out(const Writer& writer, const Fault& fault) {
    const TemporaryFolder folder, elsewhere;
    folder_.copy_to(folder);
    const Bytes before = files_of(folder.path());
    const fs::path mark = elsewhere / "mark";
    const Result result = WritersFolder::run(writer.words, folder.path(),
                                             {{"LD_PRELOAD", preload(fault_library("writes"))},
                                              {"KVSCOPE_FAIL_FOLDER", folder.path().string()},
                                              {"KVSCOPE_FAIL_AT", std::to_string(fault.at)},
                                              {"KVSCOPE_FAIL_HOW", fault.how},
                                              {"KVSCOPE_FAIL_MARK", mark.string()}});
    CAPTURE(writer.name, fault.how, fault.at, result.err, result.exit_code);
    const bool came = fs::exists(mark);
    if (!came || fault.how == "short") {
      CHECK(result.exit_code == 0);
      return came;
    }
    if (result.exit_code == 0) {
      // HDF5 writes its superblock once more when it closes a file whose every byte is on disk.
      WritersFolder::check_files(before, folder.path(), folder_.result_of(writer));
      CHECK(files_of(folder.path()).size() == folder_.result_of(writer).size());
      return true;
    }
    check_error_line(result, 3, "");
    WritersFolder::check_files(before, folder.path(), folder_.result_of(writer));
    Words again = writer.words;
    again.insert(again.end(), writer.again.begin(), writer.again.end());
    if (!fs::exists(folder / "new.h5")) again = writer.words;
    const Result second = WritersFolder::run(again, folder.path(), {});
    INFO(second.err);
    CHECK(second.exit_code == 0);
    return true;
  }

 private:
  WritersFolder folder_;
};

}  // namespace

TEST_CASE("A disk that fails at some call costs no file that was there", "[write_fault]") {
  Disk disk;
  for (const Writer& writer : writers()) {
    // Growing steps: every kind of call is met.
    int faults = 0;
    constexpr const char* kHow[] = {"ENOSPC", "EIO", "EDQUOT", "ENOSPC-once"};
    for (int at = 1; disk.try_out(writer, {kHow[faults % 4], at}); at *= 2) ++faults;
    CAPTURE(writer.name);
    CHECK(faults >= 3);
  }
}

TEST_CASE("A disk that fails at any call costs no file that was there", "[.slow][write_fault_all]") {
  Disk disk;
  const char* only = std::getenv("KVSCOPE_WRITERS");
  int faults = 0;
  for (const Writer& writer : writers()) {
    if (only && std::string(writer.name).find(only) == std::string::npos) continue;
    const int before = faults;
    for (const char* how : {"ENOSPC", "ENOSPC-once", "EIO", "EIO-once", "EDQUOT", "short"})
      for (int at = 1; disk.try_out(writer, {how, at}); ++at) ++faults;
    WARN(writer.name << ": " << faults - before << " faults");
  }
  CHECK((only || faults >= 400));
}
