// Small files that ask for much: none takes a gigabyte of memory, of the reader or of us, nor keeps anybody waiting.

#include <hdf5.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "engine/core/support/error.h"
#include "engine/core/trace/trace_child.h"
#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_schema.h"
#include "tests/core/trace_support.h"
#include "tests/support/folders.h"
#include "tests/support/slowdown.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

constexpr long kGigabyte = 1 << 20;  // as getrusage() counts

/// A good trace that is made bad with HDF5's own functions.
struct Bomb {
  ScratchFolder folder{true};
  std::filesystem::path path = folder / "bomb.h5";
  hid_t file = -1;
  Bomb() {
    save_trace(path, formula_run(0), false);
    file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    REQUIRE(file >= 0);
  }

  /// Puts zeros of n tokens in the place of a dataset along tokens, in compressed chunks of `step` tokens. Chunks that
  /// nobody wrote read as zeros too; with `written` the first one is there.
  void replace(const trace::DatasetSchema& dataset, hsize_t n, hsize_t step, bool written) {
    std::vector<hsize_t> dims, most, chunk, none;
    for (int d = 0; d < dataset.rank(); ++d) {
      const bool tokens = dataset.axes[d] == trace::Axis::token;
      const hsize_t heads = dataset.axes[d] == trace::Axis::layer ? 3 : 2;  // or begin and end
      dims.push_back(tokens ? n : heads);
      most.push_back(tokens ? H5S_UNLIMITED : heads);
      chunk.push_back(tokens ? step : heads);
      none.push_back(0);
    }
    const int rank = dataset.rank();
    const hid_t old = H5Dopen2(file, dataset.path, H5P_DEFAULT), type = H5Dget_type(old);
    H5Dclose(old);
    REQUIRE(H5Ldelete(file, dataset.path, H5P_DEFAULT) >= 0);
    const hid_t space = H5Screate_simple(rank, dims.data(), most.data()), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(creation, rank, chunk.data());
    H5Pset_deflate(creation, 9);
    const hid_t created = H5Dcreate2(file, dataset.path, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    REQUIRE(created >= 0);
    if (written) {
      std::vector<hsize_t> one(static_cast<std::size_t>(rank), 1);
      const hid_t part = H5Scopy(space), single = H5Screate_simple(rank, one.data(), nullptr);
      H5Sselect_hyperslab(part, H5S_SELECT_SET, none.data(), nullptr, one.data(), nullptr);
      const std::int64_t zero = 0;
      REQUIRE(H5Dwrite(created, type, single, part, H5P_DEFAULT, &zero) >= 0);
    }
    H5Dclose(created);
    H5Pclose(creation);
    H5Sclose(space);
  }
  void replace_all(hsize_t n, hsize_t step, bool written) {
    for (const auto& dataset : trace::datasets_of(trace::kVersion))
      for (const auto axis : dataset.axes)
        if (axis == trace::Axis::token) replace(dataset, n, step, written);
    const hid_t span = H5Dopen2(file, "runs/token_span", H5P_DEFAULT);
    const std::int64_t range[] = {0, static_cast<std::int64_t>(n)};
    REQUIRE(H5Dwrite(span, H5T_STD_I64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, range) >= 0);
    H5Dclose(span);
  }
  /// Bytes of nothing, so that the file may claim more.
  void pad(hsize_t bytes) {
    const hid_t space = H5Screate_simple(1, &bytes, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
    H5Dclose(H5Dcreate2(file, "ballast", H5T_STD_U8LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Pclose(creation);
    H5Sclose(space);
  }

  /// Of the processor, by readers that have ended: how long a busy machine lets them wait says nothing.
  static double reader_seconds() {
    rusage used{};
    ::getrusage(RUSAGE_CHILDREN, &used);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
  }

  /// What is said of run 0; "" if it is read.
  std::string line() {
    H5Fclose(file);
    REQUIRE(std::filesystem::file_size(path) <= (std::size_t{64} << 20) + 65536);
    std::string line;
    const double before = reader_seconds();
    try {
      TraceReader(in_build("tests/core/trace_kill_writer"), path).load(0);
    } catch (const Error& error) {
      line = error.what();
      CHECK(line.find("bomb.h5") != std::string::npos);
      CHECK(line.find('\n') == std::string::npos);
    }
    const double seconds = reader_seconds() - before;
    CAPTURE(line, seconds);
    rusage ours{}, children{};
    ::getrusage(RUSAGE_SELF, &ours);
    ::getrusage(RUSAGE_CHILDREN, &children);
    CHECK(ours.ru_maxrss < kShadow * kGigabyte);
    CHECK(children.ru_maxrss < kShadow * kGigabyte);
    CHECK(seconds < 8 * kSlowdown);  // of which the reader may have 5, and a second for each 32 MiB
    return line;
  }
};

}  // namespace

TEST_CASE("trace bombs: a run of compressed zeros is refused by the size of its file", "[core][trace][bombs]") {
  Bomb bomb;
  bomb.replace_all(5'000'000, 65536, false);  // 1.7 GB
  bomb.pad(hsize_t{63} << 20);
  CHECK(bomb.line().find("more than 512 MiB") != std::string::npos);
}

TEST_CASE("trace bombs: the largest run that a small file may hold takes less than a gigabyte",
          "[core][trace][bombs]") {
  Bomb bomb;
  bomb.replace_all(1'300'000, 65536, false);  // 445 MB
  bomb.pad(hsize_t{63} << 20);
  CHECK(bomb.line().find("checksum") != std::string::npos);
}

TEST_CASE("trace bombs: chunks of 64 MiB for a few tokens", "[core][trace][bombs]") {
  Bomb bomb;
  bomb.replace_all(20, 2'500'000, true);
  CHECK(bomb.line() != "");
}

TEST_CASE("trace bombs: a hundred thousand links and ten thousand groups in each other change nothing",
          "[core][trace][bombs]") {
  Bomb bomb;
  for (int i = 0; i < 100'000; ++i) {
    REQUIRE(H5Lcreate_soft("/runs", bomb.file, ("link" + std::to_string(i)).c_str(), H5P_DEFAULT, H5P_DEFAULT) >= 0);
  }
  hid_t deepest = H5Gopen2(bomb.file, "runs", H5P_DEFAULT);
  for (int i = 0; i < 10'000; ++i) {
    const hid_t deeper = H5Gcreate2(deepest, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    REQUIRE(deeper >= 0);
    H5Gclose(deepest);
    deepest = deeper;
  }
  H5Gclose(deepest);
  CHECK(bomb.line() == "");
}

TEST_CASE("trace bombs: an axis of 2^40 is refused for what it is", "[core][trace][bombs]") {
  Bomb bomb;
  bomb.replace_all(hsize_t{1} << 40, 65536, false);
  CHECK(bomb.line().find("times the file") != std::string::npos);
}
