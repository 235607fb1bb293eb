#pragma once
// Every command line that writes files, and what may stand where it wrote after a fault. For the tests of full disks and
// of kills.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/app/process.h"

namespace kvscope::test {

using Words = std::vector<std::string>;
using Bytes = std::map<std::string, std::string>;  // of every file in a folder, by name

Bytes files_of(const std::filesystem::path& folder);

/// A command line, in a folder with p.jsonl, whole.h5 (its capture), s0.h5 and s1.h5 (the same in shards), partial.h5
/// (the first runs of it), r.json (a recipe of a sweep) with its a.txt, and old files of the names that --overwrite replaces.
struct Writer {
  const char* name;
  Words words;
  Words again = {};  // added when it is tried once more
};
std::vector<Writer> writers();

/// What the writers are tried in.
class WritersFolder {
 public:
  WritersFolder();
  /// A copy in an empty folder.
  void copy_to(const TemporaryFolder& folder) const;
  static Result run(const Words& words, const std::filesystem::path& folder,
                    std::map<std::string, std::string> environment);
  /// The files where nothing fails.
  const Bytes& result_of(const Writer& writer);
  /// Every file is the old one or the new one, whole; of a trace, what its reader takes. `killed`: what has a temporary
  /// name is not looked at.
  static void check_files(const Bytes& before, const std::filesystem::path& folder, const Bytes& result,
                          bool killed = false);

 private:
  TemporaryFolder good_;
  std::map<std::string, Bytes> results_;
};

}  // namespace kvscope::test
